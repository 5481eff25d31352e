#include "cuda/dispatch.h"
#include "cuda/install.h"
#include "cuda/optimizer.cuh"
#include "cuda/runtime.h"
#include "ops/optimizer_kernels.h"

namespace tost::cuda {
namespace {

// The elements of a tensor of UpdateScalars; null where there is none.
const ops::UpdateScalars* Scalars(const Tensor& update) {
  if (!update.defined()) return nullptr;
  return reinterpret_cast<const ops::UpdateScalars*>(update.data<double>());
}

void SquaredNormOf(const Tensor& x, bool add, Tensor& sum) {
  VisitDeviceSum(x.dtype(), [&](auto zero) {
    Tensor partial =
        Tensor::Empty({CeilDivide(x.numel(), kNormRange)}, DType::kFloat64, x.device());
    SquaredNorm(x.data<decltype(zero)>(), x.numel(), add, partial.mutable_data<double>(),
                sum.mutable_data<double>(), ComputeStream());
  });
}

void BeginUpdate(const ops::UpdateRule& rule, const Tensor& squares, Tensor& update) {
  gpu::Launch(&NextUpdateKernel, dim3(1), dim3(1), 0, ComputeStream(), rule, squares.data<double>(),
              reinterpret_cast<ops::UpdateScalars*>(update.mutable_data<double>()));
}

bfloat16* ComputeOrNull(Tensor& compute) {
  return compute.defined() ? compute.mutable_data<bfloat16>() : nullptr;
}

void AdamW(const ops::AdamWStep& options, const Tensor& update, const Tensor& gradient,
           Tensor& value, Tensor& first, Tensor& second, Tensor& compute) {
  VisitDeviceSum(value.dtype(), [&](auto zero) {
    using T = decltype(zero);
    Update<ops::functor::AdamW<T>>(
        options, Scalars(update),
        UpdatedTensors<T, 2>{.gradient = gradient.data<T>(),
                             .value = value.mutable_data<T>(),
                             .moment = {first.mutable_data<T>(), second.mutable_data<T>()},
                             .compute = ComputeOrNull(compute),
                             .count = value.numel()},
        ComputeStream());
  });
}

void Sgd(const ops::SgdStep& options, const Tensor& update, const Tensor& gradient, Tensor& value,
         Tensor& momentum, Tensor& compute) {
  VisitDeviceSum(value.dtype(), [&](auto zero) {
    using T = decltype(zero);
    Update<ops::functor::Sgd<T>>(options, Scalars(update),
                                 UpdatedTensors<T, 1>{.gradient = gradient.data<T>(),
                                                      .value = value.mutable_data<T>(),
                                                      .moment = {momentum.mutable_data<T>()},
                                                      .compute = ComputeOrNull(compute),
                                                      .count = value.numel()},
                                 ComputeStream());
  });
}

void ExponentialMovingAverage(double decay, const Tensor& update, const Tensor& value,
                              Tensor& average) {
  VisitDeviceSum(value.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const MovingAverage<T> body{.keep = static_cast<T>(decay),
                                .rest = static_cast<T>(1 - decay),
                                .update = Scalars(update),
                                .value = value.data<T>(),
                                .average = average.mutable_data<T>()};
    LaunchElements<kPackWidth<T>>(Aligned<kPackWidth<T>>(body.value, body.average), value.numel(),
                                  ComputeStream(), body);
  });
}

}  // namespace

void InstallOptimizerKernels() {
  using enum DeviceType;
  ops::squared_norm_kernel.Install(kCuda, &SquaredNormOf);
  ops::begin_update_kernel.Install(kCuda, &BeginUpdate);
  ops::adamw_kernel.Install(kCuda, &AdamW);
  ops::sgd_kernel.Install(kCuda, &Sgd);
  ops::exponential_moving_average_kernel.Install(kCuda, &ExponentialMovingAverage);
}

}  // namespace tost::cuda
