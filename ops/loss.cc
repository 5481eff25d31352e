#include "ops/loss.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "autograd/tape.h"
#include "ops/cpu/loss.h"

namespace tost::ops {

constinit Kernel<CrossEntropyFn> cross_entropy_kernel{"cross entropy", &cpu::CrossEntropy};
constinit Kernel<CrossEntropyBackwardFn> cross_entropy_backward_kernel{"cross entropy backward",
                                                                       &cpu::CrossEntropyBackward};
constinit Kernel<SoftCrossEntropyFn> soft_cross_entropy_kernel{"soft cross entropy",
                                                               &cpu::SoftCrossEntropy};
constinit Kernel<SoftCrossEntropyBackwardFn> soft_cross_entropy_backward_kernel{
    "soft cross entropy backward", &cpu::SoftCrossEntropyBackward};
constinit Kernel<ProjectedCrossEntropyFn> projected_cross_entropy_kernel{
    "projected cross entropy", &cpu::ProjectedCrossEntropy};
constinit Kernel<ScaleFn> scale_gradient_kernel{"scale gradient", &cpu::ScaleGradient};
constinit Kernel<SumLossesFn> sum_losses_kernel{"sum losses", &cpu::SumLosses};

namespace {

// 1 for a sum; 1/rows that count for a mean.
double ScaleOf(Reduction reduction, int64_t rows) {
  return reduction == Reduction::kSum ? 1.0 : 1.0 / static_cast<double>(std::max<int64_t>(rows, 1));
}

int64_t CountTargets(const Tensor& targets, int32_t ignored) {
  const std::vector<int32_t> ids = targets.ToHost<int32_t>();
  return static_cast<int64_t>(ids.size()) - std::ranges::count(ids, ignored);
}

// One number per row of x, in the type of its statistics.
Tensor PerRow(const Tensor& x) {
  return Tensor::Empty({x.shape().Rows()}, AccumulateDType(x.dtype()), x.device());
}

Tensor Total(const Tensor& losses, double scale) {
  Tensor total = Tensor::Empty({}, losses.dtype(), losses.device());
  sum_losses_kernel.On(losses.device().type)(losses, scale, total);
  return total;
}

}  // namespace

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
  const int64_t counted =
      options.reduction == Reduction::kMean ? CountTargets(targets, options.ignored_target) : 0;
  const double scale = ScaleOf(options.reduction, counted);
  const Tensor total = Total(losses, scale);

  Tape* tape = Tape::Current();
  if (tape == nullptr) return total;
  return tape->Record("cross entropy", {logits.grad()}, total,
                      [device, options, scale, logits = Saved(logits), targets = Saved(targets),
                       log_sums](const Tensor& dy) {
                        logits.Gradient([&](Tensor& out, bool add) {
                          cross_entropy_backward_kernel.On(device)(
                              options, logits, targets, log_sums, dy.Item() * scale, out, add);
                        });
                      });
}

Tensor SoftCrossEntropy(const Tensor& logits, const Tensor& probabilities, Reduction reduction) {
  TOST_CHECK(logits.shape() == probabilities.shape())
      << "SoftCrossEntropy: logits " << logits.shape() << ", probabilities "
      << probabilities.shape();
  const DeviceType device = logits.device().type;
  Tensor losses = PerRow(logits), log_sums = PerRow(logits);
  soft_cross_entropy_kernel.On(device)(logits, probabilities, losses, log_sums);
  const double scale = ScaleOf(reduction, logits.shape().Rows());
  const Tensor total = Total(losses, scale);

  Tape* tape = Tape::Current();
  if (tape == nullptr) return total;
  return tape->Record("soft cross entropy", {logits.grad()}, total,
                      [device, scale, logits = Saved(logits), probabilities = Saved(probabilities),
                       log_sums](const Tensor& dy) {
                        logits.Gradient([&](Tensor& out, bool add) {
                          soft_cross_entropy_backward_kernel.On(device)(
                              logits, probabilities, log_sums, dy.Item() * scale, out, add);
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
                        const ScaleFn& scale = scale_gradient_kernel.On(device);
                        x.Gradient([&](Tensor& out, bool add) { scale(dx, dy.Item(), out, add); });
                        w.Gradient([&](Tensor& out, bool add) { scale(dw, dy.Item(), out, add); });
                      });
}

}  // namespace tost::ops
