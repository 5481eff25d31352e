// Softmax over one axis.
#ifndef TOST_OPS_SOFTMAX_H_
#define TOST_OPS_SOFTMAX_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "autograd/tensor.h"
#include "ops/cpu/softmax.h"
#include "ops/kernel.h"

namespace tost::ops {

// y_i = e^x_i / Σ_j e^x_j over the elements along `axis`; any shape with that axis, any floating
// dtype. Computed from x − max x, so that nothing overflows. dx = y (dy − Σ dy y).
Tensor Softmax(const Tensor& x, int axis);

// y_i = x_i − log Σ_j e^x_j. dx = dy − e^y Σ dy.
Tensor LogSoftmax(const Tensor& x, int axis);

// x's shape; an axis that x has not is an error that names `op`.
absl::StatusOr<Shape> SoftmaxShape(absl::string_view op, const Shape& x, int axis);

// What each does is said in ops/cpu/softmax.h.
using SoftmaxFn = void(const Tensor& x, int axis, Tensor& y);
using SoftmaxBackwardFn = void(const Tensor& y, const Tensor& dy, int axis, Tensor& dx, bool add);
extern Kernel<SoftmaxFn> softmax_kernel;
extern Kernel<SoftmaxFn> log_softmax_kernel;
extern Kernel<SoftmaxBackwardFn> softmax_backward_kernel;
extern Kernel<SoftmaxBackwardFn> log_softmax_backward_kernel;

}  // namespace tost::ops

#endif  // TOST_OPS_SOFTMAX_H_
