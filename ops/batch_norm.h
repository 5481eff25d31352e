// Batch normalisation over the last axis (Ioffe and Szegedy 2015; torch.nn.BatchNorm2d on channels
// last, torch.nn.SyncBatchNorm with a sum over ranks).
#ifndef TOST_OPS_BATCH_NORM_H_
#define TOST_OPS_BATCH_NORM_H_

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "autograd/tensor.h"
#include "ops/kernel.h"

namespace tost::ops {

// How ranks share statistics. Every rank holds as many rows and sums equally often.
struct StatisticsSum {
  std::function<void(Tensor& sums)> over_ranks;  // adds up a vector, in place; absent on one rank
  int ranks = 1;
};

struct BatchNormOptions {
  double epsilon = 1e-5;
  double momentum = 0.1;
  StatisticsSum sum;
};

// Statistics that evaluation uses, [C] each, float32 (float64 for float64 x).
struct BatchNormState {
  Tensor running_mean;
  Tensor running_variance;
};

// Training: y = (x − μ) ρ ⊙ weight + bias with μ and ρ = 1/√(σ² + epsilon) of each channel over all
// R rows of all ranks, σ² = mean((x − μ)²).
//   x: [..., C]   weight, bias: [C]   →   y: [..., C] in x's dtype
// weight and bias are float64 for float64 x and float32 otherwise. Brings `state` up to date:
//   running_mean     ← (1 − momentum) running_mean     + momentum μ
//   running_variance ← (1 − momentum) running_variance + momentum σ² R / (R − 1)
// With x̂ = (x − μ) ρ and means over the rows of all ranks:
//   dx = ρ weight ⊙ (dy − mean(dy) − x̂ mean(dy x̂)),   dweight += Σ dy x̂,   dbias += Σ dy,
// the last two over the rows of this rank, as for any parameter. Saves x, μ and ρ.
Tensor BatchNorm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                 const BatchNormOptions& options, BatchNormState& state);

// Evaluation: the same with the running statistics, which are constants of the gradient.
Tensor BatchNormEvaluation(const Tensor& x, const Tensor& weight, const Tensor& bias,
                           double epsilon, const BatchNormState& state);

// The extents of y, or why there are none.
absl::StatusOr<Shape> BatchNormShape(const Shape& x, const Shape& weight, const Shape& bias);

// ---- Kernel slots ----

// sums[c] = Σ_rows (x − mean[c])².
using SquaredDeviationsFn = void(const Tensor& x, const Tensor& mean, Tensor& sums);
extern Kernel<SquaredDeviationsFn> squared_deviations_kernel;

// y = (x − mean) rstd ⊙ weight + bias.
using NormaliseChannelsFn = void(const Tensor& x, const Tensor& mean, const Tensor& rstd,
                                 const Tensor& weight, const Tensor& bias, Tensor& y);
extern Kernel<NormaliseChannelsFn> normalise_channels_kernel;

// sums [2, C]: Σ_rows dy, Σ_rows dy x̂.
using BatchNormGradientSumsFn = void(const Tensor& x, const Tensor& mean, const Tensor& rstd,
                                     const Tensor& dy, Tensor& sums);
extern Kernel<BatchNormGradientSumsFn> batch_norm_gradient_sums_kernel;

// dx (+)= rstd weight ⊙ (dy − means[0] − x̂ means[1]), means [2, C].
using BatchNormBackwardFn = void(const Tensor& x, const Tensor& mean, const Tensor& rstd,
                                 const Tensor& weight, const Tensor& means, const Tensor& dy,
                                 bool add, Tensor& dx);
extern Kernel<BatchNormBackwardFn> batch_norm_backward_kernel;

// running = (1 − momentum) running + momentum scale value, element by element; both may be the same
// tensor.
using TrackStatisticFn = void(double momentum, double scale, const Tensor& value, Tensor& running);
extern Kernel<TrackStatisticFn> track_statistic_kernel;

// rstd = 1 / √(variance + epsilon), [C].
using ReciprocalDeviationFn = void(double epsilon, const Tensor& variance, Tensor& rstd);
extern Kernel<ReciprocalDeviationFn> reciprocal_deviation_kernel;

}  // namespace tost::ops

#endif  // TOST_OPS_BATCH_NORM_H_
