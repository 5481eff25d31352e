#include "ops/reduce.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "autograd/tape.h"
#include "ops/elementwise.h"
#include "ops/elementwise_kernels.h"
#include "ops/reduce_functors.h"

namespace tost::ops {

constinit Kernel<CumsumFn> cumsum_kernel{"cumsum", &cpu::Cumsum};

namespace {

// The shapes of one call: with the reduced axes at extent 1, as returned, and the elements that go
// into one result.
struct Plan {
  Shape kept, result;
  int64_t count;
};

Plan PlanOf(const char* op, const Tensor& x, const Axes& axes, bool keep_dims) {
  Plan plan;
  plan.kept = TOST_CHECK_VALUE(ReduceShape(op, x.shape(), axes));
  std::vector<bool> reduced(static_cast<size_t>(x.shape().rank()), axes.empty());
  for (int axis : axes) reduced[static_cast<size_t>(x.shape().Axis(axis))] = true;
  std::vector<int64_t> remaining;
  for (int i = 0; i < x.shape().rank(); ++i) {
    if (!reduced[static_cast<size_t>(i)]) remaining.push_back(x.shape()[i]);
  }
  plan.result = keep_dims ? plan.kept : Shape(remaining);
  plan.count = 1;
  for (int i = 0; i < x.shape().rank(); ++i) {
    if (plan.kept[i] != x.shape()[i]) plan.count *= x.shape()[i];
  }
  return plan;
}

template <class F>
Tensor Reduced(const Tensor& x, const Tensor& center, double scale, const Shape& kept,
               DType dtype) {
  Tensor out = Tensor::Empty(kept, dtype, x.device());
  reduce_kernel<F>.On(x.device().type)(x, center, scale, out, /*add=*/false);
  return out;
}

Tensor ScaledSum(const char* name, const Tensor& x, const Plan& plan, double scale) {
  Tensor y = Reduced<functor::Total>(x, {}, scale, plan.kept, x.dtype()).Reshaped(plan.result);
  Tape* tape = Tape::Current();
  if (tape == nullptr) return y;
  return tape->Record(
      name, {x.grad()}, y, [x = SavedShape(x), kept = plan.kept, scale](const Tensor& dy) {
        x.Gradient([&](Tensor& dx, bool add) {
          scaled_copy_kernel.On(dy.device().type)(scale, dy.Reshaped(kept), dx, add);
        });
      });
}

// Records dx = weight · F.Slope(x, center) with weight = factor · dy / divisor.
template <class F>
Tensor RecordSlope(const char* name, const Tensor& x, const Tensor& center, const Plan& plan,
                   double factor, const Tensor& divisor, const Tensor& y) {
  Tape* tape = Tape::Current();
  if (tape == nullptr) return y;
  return tape->Record(
      name, {x.grad()}, y,
      [x = Saved(x), center = Saved(center), divisor, factor, kept = plan.kept](const Tensor& dy) {
        x.Gradient([&](Tensor& dx, bool add) {
          Tensor weight = Cast(dy.Reshaped(kept), AccumulateDType(dy.dtype())) * factor;
          if (divisor.defined()) weight = weight / divisor;
          reduce_backward_kernel<F>.On(dy.device().type)(x, center, weight, dx, add);
        });
      });
}

}  // namespace

absl::StatusOr<Shape> ReduceShape(absl::string_view op, const Shape& x, const Axes& axes) {
  Shape kept = x;
  for (int axis = 0; axes.empty() && axis < x.rank(); ++axis) kept.set(axis, 1);
  std::vector<bool> seen(static_cast<size_t>(x.rank()), false);
  for (int axis : axes) {
    if (axis < -x.rank() || axis >= x.rank()) {
      return absl::InvalidArgumentError(
          absl::StrCat(op, ": axis ", axis, " of a tensor ", x.ToString()));
    }
    auto is_seen = seen[static_cast<size_t>(x.Axis(axis))];
    if (is_seen) {
      return absl::InvalidArgumentError(absl::StrCat(op, ": axis ", axis, " is named twice in {",
                                                     absl::StrJoin(axes, ", "), "} (x ",
                                                     x.ToString(), ")"));
    }
    is_seen = true;
    kept.set(axis, 1);
  }
  return kept;
}

void ReduceTo(const Tensor& x, Tensor& out, bool add, double scale) {
  reduce_kernel<functor::Total>.On(x.device().type)(x, {}, scale, out, add);
}

Tensor Sum(const Tensor& x, const Axes& axes, bool keep_dims) {
  return ScaledSum("sum", x, PlanOf("Sum", x, axes, keep_dims), 1);
}

Tensor Mean(const Tensor& x, const Axes& axes, bool keep_dims) {
  const Plan plan = PlanOf("Mean", x, axes, keep_dims);
  return ScaledSum("mean", x, plan, 1.0 / static_cast<double>(plan.count));
}

Tensor Max(const Tensor& x, const Axes& axes, bool keep_dims) {
  const Plan plan = PlanOf("Max", x, axes, keep_dims);
  TOST_CHECK(plan.count > 0) << "Max: the maximum of no elements (x " << x.shape() << ")";
  const DType dtype = AccumulateDType(x.dtype());
  const Tensor largest = Reduced<functor::Largest>(x, {}, 1, plan.kept, dtype);
  const Tensor y = Cast(largest, x.dtype()).Reshaped(plan.result);
  if (Tape::Current() == nullptr || x.grad() == nullptr) return y;
  const Tensor ties = Reduced<functor::CountEqual>(x, largest, 1, plan.kept, dtype);
  return RecordSlope<functor::Largest>("max", x, largest, plan, 1, ties, y);
}

Tensor Variance(const Tensor& x, const Axes& axes, bool keep_dims) {
  const Plan plan = PlanOf("Variance", x, axes, keep_dims);
  const double scale = 1.0 / static_cast<double>(plan.count);
  const Tensor mean = Reduced<functor::Total>(x, {}, scale, plan.kept, AccumulateDType(x.dtype()));
  const Tensor y = Reduced<functor::SquaredDeviation>(x, mean, scale, plan.kept, x.dtype());
  // The mean depends on x as well, but Σ (x − mean) = 0 takes that term out of the gradient.
  return RecordSlope<functor::SquaredDeviation>("variance", x, mean, plan, scale, {},
                                                y.Reshaped(plan.result));
}

Tensor LogSumExp(const Tensor& x, const Axes& axes, bool keep_dims) {
  const Plan plan = PlanOf("LogSumExp", x, axes, keep_dims);
  const DType dtype = AccumulateDType(x.dtype());
  // Bounded so that x − m is never inf − inf: a row of −inf has the sum 0 and the result −inf.
  const double bound = std::numeric_limits<float>::max();
  const Tensor m = Clamp(Reduced<functor::Largest>(x, {}, 1, plan.kept, dtype), -bound, bound);
  const Tensor y = m + Log(Reduced<functor::SumOfExponentials>(x, m, 1, plan.kept, dtype));
  return RecordSlope<functor::SumOfExponentials>("logsumexp", x, y, plan, 1, {},
                                                 Cast(y, x.dtype()).Reshaped(plan.result));
}

Tensor Cumsum(const Tensor& x, int axis) {
  TOST_CHECK_VALUE(ReduceShape("Cumsum", x.shape(), {axis}));
  Tensor y = Tensor::Empty(x.shape(), x.dtype(), x.device());
  const auto cumsum = cumsum_kernel.On(x.device().type);
  cumsum(x, axis, /*reverse=*/false, y, /*add=*/false);

  Tape* tape = Tape::Current();
  if (tape == nullptr) return y;
  // x_j is in every sum y_i with i ≥ j.
  return tape->Record("cumsum", {x.grad()}, y, [cumsum, axis, x = SavedShape(x)](const Tensor& dy) {
    x.Gradient([&](Tensor& dx, bool add) { cumsum(dy, axis, /*reverse=*/true, dx, add); });
  });
}

}  // namespace tost::ops
