// Cross entropy from logits: with class ids (smoothed if asked) and with soft targets.
#ifndef TOST_OPS_LOSS_H_
#define TOST_OPS_LOSS_H_

#include "absl/status/statusor.h"
#include "autograd/tensor.h"
#include "ops/kernel.h"

namespace tost::ops {

enum class Reduction {
  kSum,   // the trainer divides by the targets of the whole update, over micro-steps and ranks
  kMean,  // over the rows that count
};

struct CrossEntropyOptions {
  int32_t ignored_target = -1;  // rows with this target do not count
  // Moves this share of the target's probability to all classes alike (torch's label_smoothing).
  double label_smoothing = 0;
  Reduction reduction = Reduction::kMean;
};

// Σ over the rows that count of −Σ_v p[v] log softmax(logits)[v], with
//   p[v] = (1 − ε)·[v = target] + ε/V,   ε = label_smoothing.
// logits [..., V], targets int32 [...] in [0, V) or ignored → scalar in AccumulateDType(logits).
// Gradient: (softmax − p) per row. Saves the logits and one number per row.
// A target out of range fails a CHECK on the CPU; a device that cannot stop for it makes the row's
// loss and gradient NaN, so that the update is skipped and reported.
Tensor CrossEntropy(const Tensor& logits, const Tensor& targets,
                    const CrossEntropyOptions& options = {});

// The same with given target probabilities [..., V], such as mixup makes, whose rows sum to 1. The
// probabilities are float32 or float64 as the scalar is and get no gradient. Every row counts.
Tensor SoftCrossEntropy(const Tensor& logits, const Tensor& probabilities,
                        Reduction reduction = Reduction::kMean);

// The number of rows. Errors: targets that are not one per row of logits.
absl::StatusOr<int64_t> CrossEntropyShape(const Shape& logits, const Shape& targets);

// Σ −log softmax(x wᵀ)[target] over the targets ≠ −1: the vocabulary projection of a language model
// with its loss. x [..., C], w [V, C] (the token embedding, tied), targets int32 [...] → scalar.
//
// Rows are taken in chunks so that the logits [rows, V] never exist at once. While a tape records,
// the gradients of both operands are formed chunk by chunk in the forward pass, where the logits
// are at hand; backward scales them by the gradient of the loss. With bfloat16 operands the logits
// and the gradient of w are float32. Targets out of range: as in CrossEntropy.
Tensor ProjectedCrossEntropy(const Tensor& x, const Tensor& w, const Tensor& targets);

// The number of rows. Errors: widths that differ, targets that are not one per row of x.
absl::StatusOr<int64_t> ProjectedCrossEntropyShape(const Shape& x, const Shape& w,
                                                   const Shape& targets);

// Logits of one chunk: on a CPU few enough to stay near its caches, on a GPU enough to fill it.
inline constexpr int64_t kHostLossChunk = int64_t{8} << 20;
inline constexpr int64_t kDeviceLossChunk = int64_t{128} << 20;
// The rows of a chunk of `logits` logits.
int64_t LossChunkRows(int64_t rows, int64_t vocabulary, int64_t logits);

// total (+)= scale · Σ losses, added in double in an order that their number decides. total is a
// scalar in the losses' dtype or in float64: what gathers the losses of micro-steps without a wait
// of the host.
void SumLosses(const Tensor& losses, double scale, bool add, Tensor& total);

// ---- Kernel slots ----
//
// `dy`, the gradient of the loss, is a scalar on the device in AccumulateDType(logits).

// Writes the loss of every row (0 where ignored) and the logarithm of its softmax's denominator,
// both [rows] in AccumulateDType(logits).
using CrossEntropyFn = void(const CrossEntropyOptions& options, const Tensor& logits,
                            const Tensor& targets, Tensor& losses, Tensor& log_sums);
// dlogits (+)= dy (softmax − p). The reduction of `options` is not the kernels' business.
using CrossEntropyBackwardFn = void(const CrossEntropyOptions& options, const Tensor& logits,
                                    const Tensor& targets, const Tensor& log_sums, const Tensor& dy,
                                    Tensor& dlogits, bool add);
// count = max(1, targets that are not ignored), a scalar in float32 or float64.
using CountTargetsFn = void(const Tensor& targets, int32_t ignored_target, Tensor& count);
using SoftCrossEntropyFn = void(const Tensor& logits, const Tensor& probabilities, Tensor& losses,
                                Tensor& log_sums);
// dlogits (+)= scale dy (softmax − p).
using SoftCrossEntropyBackwardFn = void(const Tensor& logits, const Tensor& probabilities,
                                        const Tensor& log_sums, double scale, const Tensor& dy,
                                        Tensor& dlogits, bool add);
// Losses of the rows; dx and dw of their sum where these are defined.
using ProjectedCrossEntropyFn = void(const Tensor& x, const Tensor& w, const Tensor& targets,
                                     Tensor& losses, Tensor& dx, Tensor& dw);
// out (+)= dy · x; x may be float32 where out is bfloat16.
using ScaleGradientFn = void(const Tensor& x, const Tensor& dy, Tensor& out, bool add);
using SumLossesFn = void(const Tensor& losses, double scale, bool add, Tensor& total);

extern Kernel<CrossEntropyFn> cross_entropy_kernel;
extern Kernel<CrossEntropyBackwardFn> cross_entropy_backward_kernel;
extern Kernel<CountTargetsFn> count_targets_kernel;
extern Kernel<SoftCrossEntropyFn> soft_cross_entropy_kernel;
extern Kernel<SoftCrossEntropyBackwardFn> soft_cross_entropy_backward_kernel;
extern Kernel<ProjectedCrossEntropyFn> projected_cross_entropy_kernel;
extern Kernel<ScaleGradientFn> scale_gradient_kernel;
extern Kernel<SumLossesFn> sum_losses_kernel;

}  // namespace tost::ops

#endif  // TOST_OPS_LOSS_H_
