// Elementwise ops, so that formulas read as they are written: x * 2 + Exp(y).
//
// Operands broadcast as in NumPy: shapes are aligned at the last axis, extents must be equal or one
// of them 1, and the operand with extent 1 repeats. The gradient of an operand has the operand's
// shape: it is summed, in a fixed order, over the axes along which the operand repeated.
//
// All operands of one op have the same floating dtype (Cast converts), which is the result's.
// bfloat16 is computed in float and rounded once. A NaN operand gives a NaN result.
#ifndef TOST_OPS_ELEMENTWISE_H_
#define TOST_OPS_ELEMENTWISE_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "autograd/tensor.h"

namespace tost {

Tensor operator+(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a, const Tensor& b);
Tensor operator*(const Tensor& a, const Tensor& b);
Tensor operator/(const Tensor& a, const Tensor& b);

Tensor operator+(const Tensor& x, double scalar);
Tensor operator-(const Tensor& x, double scalar);
Tensor operator*(const Tensor& x, double scalar);
Tensor operator/(const Tensor& x, double scalar);
Tensor operator+(double scalar, const Tensor& x);
Tensor operator-(double scalar, const Tensor& x);
Tensor operator*(double scalar, const Tensor& x);
Tensor operator/(double scalar, const Tensor& x);

Tensor operator-(const Tensor& x);

namespace ops {

Tensor Exp(const Tensor& x);
Tensor Log(const Tensor& x);
Tensor Sqrt(const Tensor& x);    // infinite slope at 0
Tensor Rsqrt(const Tensor& x);   // x^−½
Tensor Abs(const Tensor& x);     // slope 0 at 0
Tensor Square(const Tensor& x);  // x²

// x^exponent; d(x²)/dx at 0 is 0, and the slope of x^0 is 0 everywhere.
Tensor Pow(const Tensor& x, double exponent);
// x^y for every element; d/dx = y x^(y−1) (0 for y = 0), d/dy = x^y log x, taken as 0 at x = 0. A
// negative x has a value at integer y, but its gradient in y is NaN.
Tensor Pow(const Tensor& x, const Tensor& y);

Tensor Relu(const Tensor& x);  // max(x, 0); slope 0 at 0
Tensor Sigmoid(const Tensor& x);
Tensor Tanh(const Tensor& x);
// x Φ(x) = ½ x (1 + erf(x / √2)): the form of the language models of the paper.
Tensor Gelu(const Tensor& x);
// ½ x (1 + tanh(√(2/π) (x + 0.044715 x³))).
Tensor GeluTanh(const Tensor& x);

// min(max(x, low), high), low <= high. The slope is 1 for low <= x <= high and 0 outside.
Tensor Clamp(const Tensor& x, double low, double high);

// The larger, the smaller of two elements. Where they are equal each takes half of the gradient.
Tensor Maximum(const Tensor& a, const Tensor& b);
Tensor Minimum(const Tensor& a, const Tensor& b);

// condition ≠ 0 ? a : b. No gradient flows into the condition, none into the element not taken.
Tensor Where(const Tensor& condition, const Tensor& a, const Tensor& b);

// 1 where the relation holds and 0 where not, in the operands' dtype. Constants: no gradient.
Tensor Less(const Tensor& a, const Tensor& b);
Tensor LessEqual(const Tensor& a, const Tensor& b);
Tensor Greater(const Tensor& a, const Tensor& b);
Tensor GreaterEqual(const Tensor& a, const Tensor& b);
Tensor Equal(const Tensor& a, const Tensor& b);

// x in another floating dtype. The gradient is converted back.
Tensor Cast(const Tensor& x, DType dtype);

// The shape that `op` gives for two operands; the error's message begins with `op`.
absl::StatusOr<Shape> ElementwiseShape(absl::string_view op, const Shape& a, const Shape& b);

}  // namespace ops
}  // namespace tost

#endif  // TOST_OPS_ELEMENTWISE_H_
