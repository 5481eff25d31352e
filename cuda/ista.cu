#include "cuda/dispatch.h"
#include "cuda/install.h"
#include "cuda/ista.cuh"
#include "cuda/map_tensors.h"
#include "ops/ista.h"

namespace tost::cuda {
namespace {

// x −= z. Like all maps of this file: reads each operand once, writes the result once.
void Residual(const Tensor& z, Tensor& x) {
  VisitDeviceFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    MapTensors(Scaled{-1}, /*add=*/true, x.mutable_data<T>(), x.shape(), Read<T>(z));
  });
}

void Threshold(const ops::IstaOptions& options, const Tensor& z, Tensor& m) {
  VisitDeviceFloat(m.dtype(), [&](auto zero) {
    using T = decltype(zero);
    MapTensors(IstaThreshold{options.step, options.sparsity}, /*add=*/false, m.mutable_data<T>(),
               m.shape(), Read<T>(z), Read<T>(m));
  });
}

void Gradient(const ops::IstaOptions& options, const Tensor& y, const Tensor& dy, Tensor& g) {
  VisitDeviceFloat(g.dtype(), [&](auto zero) {
    using T = decltype(zero);
    MapTensors(IstaGradient{options.step}, /*add=*/false, g.mutable_data<T>(), g.shape(),
               Read<T>(y), Read<T>(dy));
  });
}

void Combine(const Tensor& y, const Tensor& dy, const Tensor& n, const Tensor& e, bool add,
             Tensor& dz) {
  VisitDeviceFloat(dz.dtype(), [&](auto zero) {
    using T = decltype(zero);
    MapTensors(IstaCombine{}, add, dz.mutable_data<T>(), dz.shape(), Read<T>(y), Read<T>(dy),
               Read<T>(n), Read<T>(e));
  });
}

}  // namespace

void InstallIstaKernels() {
  ops::ista_residual_kernel.Install(DeviceType::kCuda, &Residual);
  ops::ista_threshold_kernel.Install(DeviceType::kCuda, &Threshold);
  ops::ista_gradient_kernel.Install(DeviceType::kCuda, &Gradient);
  ops::ista_combine_kernel.Install(DeviceType::kCuda, &Combine);
}

}  // namespace tost::cuda
