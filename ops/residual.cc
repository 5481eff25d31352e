#include "ops/residual.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "autograd/tape.h"
#include "ops/cpu/residual.h"
#include "ops/linear.h"

namespace tost::ops {

constinit Kernel<ScaledResidualFn> scaled_residual_kernel{"scaled_residual", &cpu::ScaledResidual};
constinit Kernel<ScaledResidualBackwardFn> scaled_residual_backward_kernel{
    "scaled_residual_backward", &cpu::ScaledResidualBackward};
constinit Kernel<AccumulateFn> accumulate_kernel{"accumulate", &cpu::CopyOrAdd};

absl::StatusOr<Shape> ScaledResidualShape(const Shape& x, const std::optional<Shape>& gamma,
                                          const Shape& y) {
  if (x != y) {
    return absl::InvalidArgumentError(
        absl::StrCat("ScaledResidual: shapes differ: x ", x.ToString(), " and y ", y.ToString()));
  }
  if (gamma.has_value() && (x.rank() < 1 || *gamma != Shape{x[-1]})) {
    return absl::InvalidArgumentError(
        absl::StrCat("ScaledResidual: gamma is ", gamma->ToString(), " but x is ", x.ToString()));
  }
  return x;
}

namespace {

// z = x + y: both get dz, one of them dz itself.
Tensor RecordSum(Tape& tape, const Tensor& x, const Tensor& y, const Tensor& z) {
  return tape.Record("residual", {x.grad(), y.grad()}, z,
                     [x = SavedShape(x), y = SavedShape(y)](Tensor dz) {
                       auto fill = [&](Tensor& out, bool add) {
                         accumulate_kernel.On(dz.device().type)(dz, add, out);
                       };
                       y.Gradient(fill);
                       x.PassGradient(dz, fill);
                     });
}

}  // namespace

Tensor ScaledResidual(const Tensor& x, const Tensor& gamma, const Tensor& y) {
  TOST_CHECK(x.dtype() == y.dtype())
      << "ScaledResidual: x is " << x.dtype() << " but y is " << y.dtype();
  TOST_CHECK(!gamma.defined() || gamma.dtype() == AccumulateDType(x.dtype()))
      << "ScaledResidual: gamma is " << gamma.dtype() << ", expected "
      << AccumulateDType(x.dtype());
  const auto gamma_shape = gamma.defined() ? std::optional<Shape>(gamma.shape()) : std::nullopt;
  Tensor z = Tensor::Empty(TOST_CHECK_VALUE(ScaledResidualShape(x.shape(), gamma_shape, y.shape())),
                           x.dtype(), x.device());
  scaled_residual_kernel.On(x.device().type)(x, gamma, y, z);

  Tape* tape = Tape::Current();
  if (tape == nullptr) return z;
  if (!gamma.defined()) return RecordSum(*tape, x, y, z);
  return tape->Record(
      "scaled_residual", {x.grad(), gamma.grad(), y.grad()}, z,
      [x = SavedShape(x), gamma = Saved(gamma), y = Saved(y)](Tensor dz) {
        const DeviceType device = dz.device().type;
        ScaledResidualGradients out{.want_sums = gamma.wants_gradient()};
        auto run = [&] { scaled_residual_backward_kernel.On(device)(gamma, y, dz, out); };
        y.Gradient([&](Tensor& dy, bool add) {
          out.dy = dy;
          out.add = add;
          run();
        });
        if (!y.wants_gradient() && out.want_sums) run();
        gamma.Gradient([&](Tensor& dgamma, bool add) {
          sum_rows_kernel.On(device)(out.gamma_sums, add, dgamma);
        });
        x.PassGradient(dz,
                       [&](Tensor& dx, bool add) { accumulate_kernel.On(device)(dz, add, dx); });
      });
}

}  // namespace tost::ops
