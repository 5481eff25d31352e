#include "cuda/dispatch.h"
#include "cuda/dropout.cuh"
#include "cuda/install.h"
#include "cuda/runtime.h"
#include "ops/dropout.h"

namespace tost::cuda {
namespace {

void DropoutOf(const ops::DropoutOptions& options, const Tensor& x, Tensor& y) {
  const DropoutRule rule{.key = options.key,
                         .rate = options.rate,
                         .kept = 1.0f / (1.0f - options.rate),
                         .whole_rows = options.whole_rows};
  VisitDeviceFloat(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const bool add = options.add && x.defined();
    Dropout<T>(rule, x.defined() ? x.data<T>() : nullptr, y.shape()[0], y.shape().After(0), add,
               y.mutable_data<T>(), ComputeStream());
  });
}

}  // namespace

void InstallDropoutKernels() { ops::dropout_kernel.Install(DeviceType::kCuda, &DropoutOf); }

}  // namespace tost::cuda
