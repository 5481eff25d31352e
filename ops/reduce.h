// Reductions over axes, and prefix sums.
//
// `axes` lists the axes to reduce, negative ones counted from the end; an empty list means all of
// them. Reduced axes vanish from the result, or stay with extent 1 when `keep_dims`. Results have
// the dtype of x; sums are formed in float (double for double) in an order that depends on the
// shape only, and rounded once.
#ifndef TOST_OPS_REDUCE_H_
#define TOST_OPS_REDUCE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "autograd/tensor.h"
#include "ops/cpu/reduce.h"
#include "ops/kernel.h"

namespace tost::ops {

using Axes = std::vector<int>;

Tensor Sum(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);
Tensor Mean(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);

// The largest element. Elements that tie for it share the gradient equally. Nothing to take the
// maximum of is an error.
Tensor Max(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);

// The population variance: mean((x − mean(x))²), with n and not n − 1 below the sum.
Tensor Variance(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);

// log Σ e^x without overflow: m + log Σ e^(x − m), m the maximum. The gradient is the softmax.
Tensor LogSumExp(const Tensor& x, const Axes& axes = {}, bool keep_dims = false);

// y[…, i, …] = Σ_{j ≤ i} x[…, j, …] along `axis`.
Tensor Cumsum(const Tensor& x, int axis);

// out = scale · x summed over the axes along which `out`, broadcast to the shape of x, repeats;
// added to out when `add`. The gradient of broadcasting, for use in backward rules: no tape.
void ReduceTo(const Tensor& x, Tensor& out, bool add, double scale = 1);

// The shape with the reduced axes kept at extent 1. Errors name `op`.
absl::StatusOr<Shape> ReduceShape(absl::string_view op, const Shape& x, const Axes& axes);

// What each does is said in ops/cpu/reduce.h; the functors are in ops/reduce_functors.h.
using ReduceFn = void(const Tensor& x, const Tensor& center, double scale, Tensor& out, bool add);
template <class F>
inline constinit Kernel<ReduceFn> reduce_kernel{F::kName, &cpu::Reduce<F>};

using ReduceBackwardFn = void(const Tensor& x, const Tensor& center, const Tensor& weight,
                              Tensor& dx, bool add);
template <class F>
inline constinit Kernel<ReduceBackwardFn> reduce_backward_kernel{F::kName, &cpu::ReduceBackward<F>};

using CumsumFn = void(const Tensor& x, int axis, bool reverse, Tensor& y, bool add);
extern Kernel<CumsumFn> cumsum_kernel;

}  // namespace tost::ops

#endif  // TOST_OPS_REDUCE_H_
