// The residual connection with LayerScale (Touvron et al. 2021, CaiT; γ in the ToST code).
#ifndef TOST_OPS_RESIDUAL_H_
#define TOST_OPS_RESIDUAL_H_

#include <optional>

#include "absl/status/statusor.h"
#include "autograd/tensor.h"
#include "ops/kernel.h"

namespace tost::ops {

// z = x + γ ⊙ y, or x + y without γ.   x, y: [..., C]   γ: [C] or absent   →   z: [..., C]
// x and y have one floating dtype; γ is float64 for float64 and float32 otherwise.
// Gradients: dx = dz (handed on without a copy where possible),  dy = γ ⊙ dz,  dγ += Σ_rows dz y.
// Saves y and γ, and nothing without γ.
Tensor ScaledResidual(const Tensor& x, const Tensor& gamma, const Tensor& y);

// The extents of z, or why there are none.
absl::StatusOr<Shape> ScaledResidualShape(const Shape& x, const std::optional<Shape>& gamma,
                                          const Shape& y);

// z = x + γ ⊙ y; γ may be undefined.
using ScaledResidualFn = void(const Tensor& x, const Tensor& gamma, const Tensor& y, Tensor& z);
extern Kernel<ScaledResidualFn> scaled_residual_kernel;

struct ScaledResidualGradients {
  Tensor dy;  // filled when defined; added to when `add`
  bool add = false;
  bool want_sums = false;
  Tensor gamma_sums;  // where want_sums: allocated by the kernel, [ranges, C] with row sum dγ
};
// y and γ are undefined where there is no γ.
using ScaledResidualBackwardFn = void(const Tensor& gamma, const Tensor& y, const Tensor& dz,
                                      ScaledResidualGradients& out);
extern Kernel<ScaledResidualBackwardFn> scaled_residual_backward_kernel;

// out = x, or out += x when `add`: same number of elements, floating types of any width.
using AccumulateFn = void(const Tensor& x, bool add, Tensor& out);
extern Kernel<AccumulateFn> accumulate_kernel;

}  // namespace tost::ops

#endif  // TOST_OPS_RESIDUAL_H_
