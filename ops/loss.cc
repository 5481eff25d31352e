#include "ops/loss.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "autograd/tape.h"
#include "ops/cpu/loss.h"
#include "ops/elementwise.h"

namespace tost::ops {

constinit Kernel<CrossEntropyFn> cross_entropy_kernel{"cross entropy", &cpu::CrossEntropy};
constinit Kernel<CrossEntropyBackwardFn> cross_entropy_backward_kernel{"cross entropy backward",
                                                                       &cpu::CrossEntropyBackward};
constinit Kernel<CountTargetsFn> count_targets_kernel{"count targets", &cpu::CountTargets};
constinit Kernel<SoftCrossEntropyFn> soft_cross_entropy_kernel{"soft cross entropy",
                                                               &cpu::SoftCrossEntropy};
constinit Kernel<SoftCrossEntropyBackwardFn> soft_cross_entropy_backward_kernel{
    "soft cross entropy backward", &cpu::SoftCrossEntropyBackward};
constinit Kernel<ProjectedCrossEntropyFn> projected_cross_entropy_kernel{
    "projected cross entropy", &cpu::ProjectedCrossEntropy};
constinit Kernel<ScaleGradientFn> scale_gradient_kernel{"scale gradient", &cpu::ScaleGradient};
constinit Kernel<SumLossesFn> sum_losses_kernel{"sum losses", &cpu::SumLosses};

namespace {

// One number per row of x, in the type of its statistics.
Tensor PerRow(const Tensor& x) {
  return Tensor::Empty({x.shape().Rows()}, AccumulateDType(x.dtype()), x.device());
}

Tensor Total(const Tensor& losses, double scale) {
  Tensor total = Tensor::Empty({}, losses.dtype(), losses.device());
  SumLosses(losses, scale, /*add=*/false, total);
  return total;
}

// total divided by the number of targets that count, which stays on the device.
Tensor MeanOverTargets(const Tensor& total, const Tensor& targets, int32_t ignored_target) {
  Tensor count = Tensor::Empty({}, total.dtype(), total.device());
  count_targets_kernel.On(total.device().type)(targets, ignored_target, count);
  return total / count;
}

}  // namespace

int64_t LossChunkRows(int64_t rows, int64_t vocabulary, int64_t logits) {
  return std::clamp<int64_t>(logits / vocabulary, 1, std::max<int64_t>(rows, 1));
}

void SumLosses(const Tensor& losses, double scale, bool add, Tensor& total) {
  TOST_CHECK(total.numel() == 1 &&
             (total.dtype() == losses.dtype() || total.dtype() == DType::kFloat64))
      << "SumLosses: " << losses.dtype() << " into " << total.dtype() << " " << total.shape();
  sum_losses_kernel.On(losses.device().type)(losses, scale, add, total);
}

absl::StatusOr<int64_t> CrossEntropyShape(const Shape& logits, const Shape& targets) {
  if (logits.rank() < 1 || logits.Rows() != targets.numel()) {
    return absl::InvalidArgumentError(absl::StrCat("CrossEntropy: logits ", logits.ToString(),
                                                   " want one target per row, got ",
                                                   targets.ToString()));
  }
  return logits.Rows();
}

Tensor CrossEntropy(const Tensor& logits, const Tensor& targets,
                    const CrossEntropyOptions& options) {
  TOST_CHECK_VALUE(CrossEntropyShape(logits.shape(), targets.shape()));
  const DeviceType device = logits.device().type;
  Tensor losses = PerRow(logits), log_sums = PerRow(logits);
  cross_entropy_kernel.On(device)(options, logits, targets, losses, log_sums);
  Tensor total = Total(losses, 1);
  if (Tape* tape = Tape::Current(); tape != nullptr) {
    total = tape->Record("cross entropy", {logits.grad()}, total,
                         [device, options, logits = Saved(logits), targets = Saved(targets),
                          log_sums](const Tensor& dy) {
                           logits.Gradient([&](Tensor& out, bool add) {
                             cross_entropy_backward_kernel.On(device)(options, logits, targets,
                                                                      log_sums, dy, out, add);
                           });
                         });
  }
  if (options.reduction == Reduction::kSum) return total;
  return MeanOverTargets(total, targets, options.ignored_target);
}

Tensor SoftCrossEntropy(const Tensor& logits, const Tensor& probabilities, Reduction reduction) {
  TOST_CHECK(logits.shape() == probabilities.shape())
      << "SoftCrossEntropy: logits " << logits.shape() << ", probabilities "
      << probabilities.shape();
  const DeviceType device = logits.device().type;
  Tensor losses = PerRow(logits), log_sums = PerRow(logits);
  soft_cross_entropy_kernel.On(device)(logits, probabilities, losses, log_sums);
  const auto rows = static_cast<double>(std::max<int64_t>(logits.shape().Rows(), 1));
  const double scale = reduction == Reduction::kSum ? 1 : 1 / rows;
  const Tensor total = Total(losses, scale);

  Tape* tape = Tape::Current();
  if (tape == nullptr) return total;
  return tape->Record("soft cross entropy", {logits.grad()}, total,
                      [device, scale, logits = Saved(logits), probabilities = Saved(probabilities),
                       log_sums](const Tensor& dy) {
                        logits.Gradient([&](Tensor& out, bool add) {
                          soft_cross_entropy_backward_kernel.On(device)(
                              logits, probabilities, log_sums, scale, dy, out, add);
                        });
                      });
}

absl::StatusOr<int64_t> ProjectedCrossEntropyShape(const Shape& x, const Shape& w,
                                                   const Shape& targets) {
  if (x.rank() < 1 || w.rank() != 2 || x[-1] != w[1]) {
    return absl::InvalidArgumentError(
        absl::StrCat("ProjectedCrossEntropy: x ", x.ToString(), " does not fit w ", w.ToString()));
  }
  if (x.Rows() != targets.numel()) {
    return absl::InvalidArgumentError(absl::StrCat("ProjectedCrossEntropy: x ", x.ToString(),
                                                   " wants one target per row, got ",
                                                   targets.ToString()));
  }
  return x.Rows();
}

Tensor ProjectedCrossEntropy(const Tensor& x, const Tensor& w, const Tensor& targets) {
  TOST_CHECK_VALUE(ProjectedCrossEntropyShape(x.shape(), w.shape(), targets.shape()));
  const DeviceType device = x.device().type;
  Tape* tape = Tape::Current();
  Tensor losses = PerRow(x), dx, dw;
  if (tape != nullptr && x.grad() != nullptr) dx = Tensor::Empty(x.shape(), x.dtype(), x.device());
  if (tape != nullptr && w.grad() != nullptr) {
    dw = Tensor::Empty(w.shape(), AccumulateDType(w.dtype()), w.device());
  }
  projected_cross_entropy_kernel.On(device)(x, w, targets, losses, dx, dw);
  const Tensor total = Total(losses, 1);
  if (tape == nullptr) return total;
  return tape->Record("projected cross entropy", {x.grad(), w.grad()}, total,
                      [device, x = SavedShape(x), w = SavedShape(w), dx, dw](const Tensor& dy) {
                        const auto scale = scale_gradient_kernel.On(device);
                        x.Gradient([&](Tensor& out, bool add) { scale(dx, dy, out, add); });
                        w.Gradient([&](Tensor& out, bool add) { scale(dw, dy, out, add); });
                      });
}

}  // namespace tost::ops
