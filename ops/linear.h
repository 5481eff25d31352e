// Linear layers: matrix product, bias, and the fused bias + GELU that an MLP begins with.
#ifndef TOST_OPS_LINEAR_H_
#define TOST_OPS_LINEAR_H_

#include <optional>

#include "absl/status/statusor.h"
#include "autograd/tensor.h"
#include "ops/kernel.h"

namespace tost::ops {

// y = x wᵀ + b.   x: [..., in]   w: [out, in]   b: [out] or absent   →   y: [..., out]
// x and w have one floating dtype, which is y's; b is float64 for float64 and float32 otherwise.
// Gradients: dx = dy w,  dw += dyᵀ x,  db += Σ_rows dy. Saves x and w.
Tensor Linear(const Tensor& x, const Tensor& w, const Tensor& b = {});

// y = GELU(x wᵀ + b) with GELU(u) = u Φ(u), the exact form (½ u (1 + erf(u / √2))) of nn.GELU().
// Saves x, w and the pre-activation u; backward recomputes GELU′(u) = Φ(u) + u φ(u).
Tensor LinearGelu(const Tensor& x, const Tensor& w, const Tensor& b = {});

// The extents of y, or why there are none.
absl::StatusOr<Shape> LinearShape(const Shape& x, const Shape& w,
                                  const std::optional<Shape>& b = std::nullopt);

// How a matrix product reads its operands.
struct GemmOptions {
  bool transpose_a = false;
  bool transpose_b = false;
  bool add = false;  // add to c instead of setting it
};

// c = a b. Each tensor counts as the matrix of its rows (all extents but the last are one). a and b
// have one floating dtype; c has the same, or float32 when they are bfloat16.
using GemmFn = void(const GemmOptions& options, const Tensor& a, const Tensor& b, Tensor& c);
extern Kernel<GemmFn> gemm_kernel;

// y = x wᵀ + b; b may be undefined.
using LinearFn = void(const Tensor& x, const Tensor& w, const Tensor& b, Tensor& y);
extern Kernel<LinearFn> linear_kernel;

// u = x wᵀ + b and y = GELU(u), of the u that is stored; b may be undefined.
using LinearGeluFn = void(const Tensor& x, const Tensor& w, const Tensor& b, Tensor& u, Tensor& y);
extern Kernel<LinearGeluFn> linear_gelu_kernel;

// du = dy · GELU′(u).
using GeluBackwardFn = void(const Tensor& u, const Tensor& dy, Tensor& du);
extern Kernel<GeluBackwardFn> linear_gelu_backward_kernel;

// out[c] = Σ_r x[r, c], added to what is there when `add`; sums in an order fixed by the extents.
using SumRowsFn = void(const Tensor& x, bool add, Tensor& out);
extern Kernel<SumRowsFn> sum_rows_kernel;

}  // namespace tost::ops

#endif  // TOST_OPS_LINEAR_H_
