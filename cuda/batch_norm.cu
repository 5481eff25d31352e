#include "cuda/batch_norm.cuh"
#include "cuda/dispatch.h"
#include "cuda/install.h"
#include "cuda/map_tensors.h"
#include "ops/batch_norm.h"
#include "ops/reduce.h"

namespace tost::cuda {
namespace {

Shape Matrix(const Tensor& x) { return {x.shape().Rows(), x.shape()[-1]}; }

// The reduction of ops/reduce.h along the rows, centered on each channel's mean.
void SquaredDeviations(const Tensor& x, const Tensor& mean, Tensor& sums) {
  const Shape row{1, x.shape()[-1]};
  Tensor out = sums.Reshaped(row);
  ops::reduce_kernel<ops::functor::SquaredDeviation>.On(DeviceType::kCuda)(
      x.Reshaped(Matrix(x)), mean.Reshaped(row), /*scale=*/1, out, /*add=*/false);
}

// Reads x once, writes y once.
void NormaliseChannels(const Tensor& x, const Tensor& mean, const Tensor& rstd,
                       const Tensor& weight, const Tensor& bias, Tensor& y) {
  VisitDeviceFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using S = Sum<T>;
    MapTensors(NormaliseChannel{}, /*add=*/false, y.mutable_data<T>(), y.shape(), Read<T>(x),
               Read<S>(mean), Read<S>(rstd), Read<S>(weight), Read<S>(bias));
  });
}

void BatchNormGradientSums(const Tensor& x, const Tensor& mean, const Tensor& rstd,
                           const Tensor& dy, Tensor& sums) {
  VisitDeviceFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using S = Sum<T>;
    Tensor partial;
    LaunchBatchNormSums<T>({.rows = x.shape().Rows(),
                            .channels = static_cast<int>(x.shape()[-1]),
                            .x = x.data<T>(),
                            .dy = dy.data<T>(),
                            .mean = mean.data<S>(),
                            .rstd = rstd.data<S>()},
                           sums.mutable_data<S>(), ComputeStream(), [&](int64_t count) {
                             partial = Tensor::Empty({count}, kDTypeOf<S>, x.device());
                             return partial.mutable_data<S>();
                           });
  });
}

// Reads x and dy once, writes dx once.
void BatchNormBackward(const Tensor& x, const Tensor& mean, const Tensor& rstd,
                       const Tensor& weight, const Tensor& means, const Tensor& dy, bool add,
                       Tensor& dx) {
  const Tensor mean_dy = means.Slice(0, 1), mean_dy_x = means.Slice(1, 1);
  VisitDeviceFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using S = Sum<T>;
    MapTensors(BatchNormGradient{}, add, dx.mutable_data<T>(), Matrix(x),
               Read<T>(x.Reshaped(Matrix(x))), Read<T>(dy.Reshaped(Matrix(x))), Read<S>(mean),
               Read<S>(rstd), Read<S>(weight), Read<S>(mean_dy), Read<S>(mean_dy_x));
  });
}

void TrackStatistic(double momentum, double scale, const Tensor& value, Tensor& running) {
  VisitDeviceFloat(running.dtype(), [&](auto zero) {
    using T = decltype(zero);
    MapTensors(TrackedStatistic{.kept = 1 - momentum, .added = momentum * scale}, /*add=*/false,
               running.mutable_data<T>(), running.shape(), Read<T>(value), Read<T>(running));
  });
}

void ReciprocalOfDeviation(double epsilon, const Tensor& variance, Tensor& rstd) {
  VisitDeviceFloat(variance.dtype(), [&](auto zero) {
    using T = decltype(zero);
    MapTensors(ReciprocalDeviation{epsilon}, /*add=*/false, rstd.mutable_data<T>(), rstd.shape(),
               Read<T>(variance));
  });
}

}  // namespace

void InstallBatchNormKernels() {
  ops::squared_deviations_kernel.Install(DeviceType::kCuda, &SquaredDeviations);
  ops::normalise_channels_kernel.Install(DeviceType::kCuda, &NormaliseChannels);
  ops::batch_norm_gradient_sums_kernel.Install(DeviceType::kCuda, &BatchNormGradientSums);
  ops::batch_norm_backward_kernel.Install(DeviceType::kCuda, &BatchNormBackward);
  ops::track_statistic_kernel.Install(DeviceType::kCuda, &TrackStatistic);
  ops::reciprocal_deviation_kernel.Install(DeviceType::kCuda, &ReciprocalOfDeviation);
}

}  // namespace tost::cuda
