#include "ops/linear.h"

#include "absl/strings/str_cat.h"
#include "autograd/tape.h"
#include "ops/cpu/linear.h"

namespace tost::ops {

constinit Kernel<GemmFn> gemm_kernel{"gemm", &cpu::GemmOfTensors};
constinit Kernel<LinearFn> linear_kernel{"linear", &cpu::Linear};
constinit Kernel<LinearGeluFn> linear_gelu_kernel{"linear_gelu", &cpu::LinearGelu};
constinit Kernel<GeluBackwardFn> linear_gelu_backward_kernel{"linear_gelu_backward",
                                                             &cpu::LinearGeluBackward};
constinit Kernel<SumRowsFn> sum_rows_kernel{"sum_rows", &cpu::SumRows};

absl::StatusOr<Shape> LinearShape(const Shape& x, const Shape& w, const std::optional<Shape>& b) {
  auto operands = [&] { return absl::StrCat(" (x ", x.ToString(), ", w ", w.ToString(), ")"); };
  if (x.rank() < 1 || w.rank() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("Linear: x needs at least one axis and w exactly two", operands()));
  }
  if (x[-1] != w[1]) {
    return absl::InvalidArgumentError(
        absl::StrCat("Linear: x has ", x[-1], " columns but w expects ", w[1], operands()));
  }
  if (b.has_value() && *b != Shape{w[0]}) {
    return absl::InvalidArgumentError(absl::StrCat("Linear: b is ", b->ToString(), " but w gives ",
                                                   w[0], " columns", operands()));
  }
  return x.WithLast(w[0]);
}

namespace {

Tensor EmptyResult(const Tensor& x, const Tensor& w, const Tensor& b) {
  TOST_CHECK(x.dtype() == w.dtype()) << "Linear: x is " << x.dtype() << " but w is " << w.dtype();
  TOST_CHECK(!b.defined() || b.dtype() == AccumulateDType(x.dtype()))
      << "Linear: b is " << b.dtype() << ", expected " << AccumulateDType(x.dtype());
  const auto b_shape = b.defined() ? std::optional<Shape>(b.shape()) : std::nullopt;
  return Tensor::Empty(TOST_CHECK_VALUE(LinearShape(x.shape(), w.shape(), b_shape)), x.dtype(),
                       x.device());
}

// From the gradient of x wᵀ + b to those of its operands.
void LinearBackward(const Saved& x, const Saved& w, const SavedShape& b, const Tensor& dy) {
  const DeviceType device = dy.device().type;
  const auto gemm = gemm_kernel.On(device);
  x.Gradient([&](Tensor& dx, bool add) { gemm({.add = add}, dy, w, dx); });
  w.Gradient([&](Tensor& dw, bool add) { gemm({.transpose_a = true, .add = add}, dy, x, dw); });
  b.Gradient([&](Tensor& db, bool add) { sum_rows_kernel.On(device)(dy, add, db); });
}

}  // namespace

Tensor Linear(const Tensor& x, const Tensor& w, const Tensor& b) {
  Tensor y = EmptyResult(x, w, b);
  linear_kernel.On(x.device().type)(x, w, b, y);

  Tape* tape = Tape::Current();
  if (tape == nullptr) return y;
  return tape->Record("linear", {x.grad(), w.grad(), b.grad()}, y,
                      [x = Saved(x), w = Saved(w), b = SavedShape(b)](const Tensor& dy) {
                        LinearBackward(x, w, b, dy);
                      });
}

Tensor LinearGelu(const Tensor& x, const Tensor& w, const Tensor& b) {
  Tensor u = EmptyResult(x, w, b);
  Tensor y = Tensor::Empty(u.shape(), u.dtype(), u.device());
  linear_gelu_kernel.On(x.device().type)(x, w, b, u, y);

  Tape* tape = Tape::Current();
  if (tape == nullptr) return y;
  return tape->Record("linear_gelu", {x.grad(), w.grad(), b.grad()}, y,
                      [x = Saved(x), w = Saved(w), b = SavedShape(b), u](const Tensor& dy) {
                        Tensor du = Tensor::Empty(u.shape(), u.dtype(), u.device());
                        linear_gelu_backward_kernel.On(u.device().type)(u, dy, du);
                        LinearBackward(x, w, b, du);
                      });
}

}  // namespace tost::ops
