#include "ops/batch_norm.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "autograd/tape.h"
#include "ops/cpu/batch_norm.h"
#include "ops/linear.h"

namespace tost::ops {

constinit Kernel<SquaredDeviationsFn> squared_deviations_kernel{"squared deviations",
                                                                &cpu::SquaredDeviations};
constinit Kernel<NormaliseChannelsFn> normalise_channels_kernel{"normalise channels",
                                                                &cpu::NormaliseChannels};
constinit Kernel<BatchNormGradientSumsFn> batch_norm_gradient_sums_kernel{
    "batch norm gradient sums", &cpu::BatchNormGradientSums};
constinit Kernel<BatchNormBackwardFn> batch_norm_backward_kernel{"batch norm backward",
                                                                 &cpu::BatchNormBackward};
constinit Kernel<TrackStatisticFn> track_statistic_kernel{"track statistic", &cpu::TrackStatistic};
constinit Kernel<ReciprocalDeviationFn> reciprocal_deviation_kernel{"reciprocal deviation",
                                                                    &cpu::ReciprocalDeviation};

absl::StatusOr<Shape> BatchNormShape(const Shape& x, const Shape& weight, const Shape& bias) {
  if (x.rank() < 2 || x.numel() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("BatchNorm: x ", x.ToString(), " has no rows to normalise over"));
  }
  if (weight != Shape{x[-1]} || bias != weight) {
    return absl::InvalidArgumentError(
        absl::StrCat("BatchNorm: x has ", x[-1], " channels but weight is ", weight.ToString(),
                     " and bias ", bias.ToString(), " (x ", x.ToString(), ")"));
  }
  return x;
}

namespace {

Tensor EmptyResult(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  TOST_CHECK(weight.dtype() == AccumulateDType(x.dtype()))
      << "BatchNorm: weight is " << weight.dtype() << ", expected " << AccumulateDType(x.dtype());
  return Tensor::Empty(TOST_CHECK_VALUE(BatchNormShape(x.shape(), weight.shape(), bias.shape())),
                       x.dtype(), x.device());
}

Tensor EmptyChannels(const Tensor& x, Shape shape) {
  return Tensor::Empty(std::move(shape), AccumulateDType(x.dtype()), x.device());
}

// values · factor, [n], in place.
void Scale(double factor, Tensor& values) {
  const Tensor copy = values;
  track_statistic_kernel.On(values.device().type)(1, factor, copy, values);
}

Tensor RecordBatchNorm(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor y,
                       const Tensor& mean, const Tensor& rstd, double rows,
                       const StatisticsSum& sum, bool evaluation) {
  Tape* tape = Tape::Current();
  if (tape == nullptr) return y;
  return tape->Record(
      "batch_norm", {x.grad(), weight.grad(), bias.grad()}, std::move(y),
      [x = Saved(x), weight = Saved(weight), bias = SavedShape(bias), mean, rstd, rows, sum,
       evaluation](const Tensor& dy) {
        const DeviceType device = dy.device().type;
        const int64_t channels = weight.shape()[0];
        Tensor sums = EmptyChannels(dy, {2, channels});
        batch_norm_gradient_sums_kernel.On(device)(x, mean, rstd, dy, sums);
        const auto sum_rows = sum_rows_kernel.On(device);
        bias.Gradient([&](Tensor& db, bool add) { sum_rows(sums.Slice(0, 1), add, db); });
        weight.Gradient([&](Tensor& dw, bool add) { sum_rows(sums.Slice(1, 1), add, dw); });
        // Statistics that are constants pass no gradient on.
        if (!evaluation && sum.over_ranks) sum.over_ranks(sums);
        Scale(evaluation ? 0 : 1 / rows, sums);
        x.Gradient([&](Tensor& dx, bool add) {
          batch_norm_backward_kernel.On(device)(x, mean, rstd, weight, sums, dy, add, dx);
        });
      });
}

}  // namespace

Tensor BatchNorm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                 const BatchNormOptions& options, BatchNormState& state) {
  const DeviceType device = x.device().type;
  Tensor y = EmptyResult(x, weight, bias);
  const double rows = static_cast<double>(x.shape().Rows()) * options.sum.ranks;
  auto mean_of = [&](Tensor& sums) {
    if (options.sum.over_ranks) options.sum.over_ranks(sums);
    Scale(1 / rows, sums);
  };
  Tensor mean = EmptyChannels(x, weight.shape());
  sum_rows_kernel.On(device)(x, /*add=*/false, mean);
  mean_of(mean);
  Tensor variance = EmptyChannels(x, weight.shape());
  squared_deviations_kernel.On(device)(x, mean, variance);
  mean_of(variance);

  const auto track = track_statistic_kernel.On(device);
  track(options.momentum, 1, mean, state.running_mean);
  track(options.momentum, rows / std::max(rows - 1, 1.0), variance, state.running_variance);

  Tensor rstd = EmptyChannels(x, weight.shape());
  reciprocal_deviation_kernel.On(device)(options.epsilon, variance, rstd);
  normalise_channels_kernel.On(device)(x, mean, rstd, weight, bias, y);
  return RecordBatchNorm(x, weight, bias, std::move(y), mean, rstd, rows, options.sum,
                         /*evaluation=*/false);
}

Tensor BatchNormEvaluation(const Tensor& x, const Tensor& weight, const Tensor& bias,
                           double epsilon, const BatchNormState& state) {
  const DeviceType device = x.device().type;
  Tensor y = EmptyResult(x, weight, bias);
  Tensor rstd = EmptyChannels(x, weight.shape());
  reciprocal_deviation_kernel.On(device)(epsilon, state.running_variance, rstd);
  normalise_channels_kernel.On(device)(x, state.running_mean, rstd, weight, bias, y);
  return RecordBatchNorm(x, weight, bias, std::move(y), state.running_mean, rstd, 1, {},
                         /*evaluation=*/true);
}

}  // namespace tost::ops
