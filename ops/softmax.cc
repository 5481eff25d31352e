#include "ops/softmax.h"

#include "absl/strings/str_cat.h"
#include "autograd/tape.h"

namespace tost::ops {

constinit Kernel<SoftmaxFn> softmax_kernel{"softmax", &cpu::Softmax};
constinit Kernel<SoftmaxFn> log_softmax_kernel{"log_softmax", &cpu::LogSoftmax};
constinit Kernel<SoftmaxBackwardFn> softmax_backward_kernel{"softmax_backward",
                                                            &cpu::SoftmaxBackward};
constinit Kernel<SoftmaxBackwardFn> log_softmax_backward_kernel{"log_softmax_backward",
                                                                &cpu::LogSoftmaxBackward};

namespace {

Tensor Run(const char* name, const char* op, const KernelOn<SoftmaxFn>& forward,
           const KernelOn<SoftmaxBackwardFn>& backward, const Tensor& x, int axis) {
  Tensor y =
      Tensor::Empty(TOST_CHECK_VALUE(SoftmaxShape(op, x.shape(), axis)), x.dtype(), x.device());
  forward(x, axis, y);
  Tape* tape = Tape::Current();
  if (tape == nullptr) return y;
  return tape->Record(name, {x.grad()}, y,
                      [backward, axis, x = SavedShape(x), y = Saved(y)](const Tensor& dy) {
                        x.Gradient([&](Tensor& dx, bool add) { backward(y, dy, axis, dx, add); });
                      });
}

}  // namespace

absl::StatusOr<Shape> SoftmaxShape(absl::string_view op, const Shape& x, int axis) {
  if (axis >= -x.rank() && axis < x.rank()) return x;
  return absl::InvalidArgumentError(
      absl::StrCat(op, ": axis ", axis, " of a tensor ", x.ToString()));
}

Tensor Softmax(const Tensor& x, int axis) {
  const DeviceType device = x.device().type;
  return Run("softmax", "Softmax", softmax_kernel.On(device), softmax_backward_kernel.On(device), x,
             axis);
}

Tensor LogSoftmax(const Tensor& x, int axis) {
  const DeviceType device = x.device().type;
  return Run("log_softmax", "LogSoftmax", log_softmax_kernel.On(device),
             log_softmax_backward_kernel.On(device), x, axis);
}

}  // namespace tost::ops
