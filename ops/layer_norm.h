// Layer normalisation over the last axis (Ba, Kiros, Hinton 2016; torch.nn.LayerNorm).
#ifndef TOST_OPS_LAYER_NORM_H_
#define TOST_OPS_LAYER_NORM_H_

#include <optional>

#include "absl/status/statusor.h"
#include "autograd/tensor.h"
#include "ops/kernel.h"

namespace tost::ops {

// y = (x − μ) ρ ⊙ weight + bias with μ = mean, ρ = 1 / √(variance + epsilon) of each row of C.
//   x: [..., C]   weight: [C]   bias: [C] or absent   →   y: [..., C] in x's dtype
// weight and bias are float64 for float64 x and float32 otherwise. With x̂ = (x − μ) ρ, g = dy ⊙
// weight:
//   dx = ρ (g − mean(g) − x̂ mean(g x̂)),   dweight += Σ_rows dy x̂,   dbias += Σ_rows dy.
// Saves x, and μ and ρ of each row.
Tensor LayerNorm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon);

// The extents of y, or why there are none.
absl::StatusOr<Shape> LayerNormShape(const Shape& x, const Shape& weight,
                                     const std::optional<Shape>& bias = std::nullopt);

// Writes y, and mean and rstd [rows] in weight's dtype.
using LayerNormFn = void(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon,
                         Tensor& y, Tensor& mean, Tensor& rstd);
extern Kernel<LayerNormFn> layer_norm_kernel;

struct LayerNormGradients {
  Tensor dx;  // filled when defined; added to when `add`
  bool add = false;
  bool want_sums = false;
  // Where want_sums: allocated by the kernel, [ranges, C]. Their sums over the rows are dweight and
  // dbias; one pass over x and dy forms them together with dx.
  Tensor weight_sums;
  Tensor bias_sums;
};
using LayerNormBackwardFn = void(const Tensor& x, const Tensor& weight, const Tensor& mean,
                                 const Tensor& rstd, const Tensor& dy, LayerNormGradients& out);
extern Kernel<LayerNormBackwardFn> layer_norm_backward_kernel;

}  // namespace tost::ops

#endif  // TOST_OPS_LAYER_NORM_H_
