// CPU loops over the functors of ops/unary_functors.h and ops/binary_functors.h, instantiated for
// all of them in elementwise.cc and elementwise_binary.cc.
#ifndef TOST_OPS_CPU_ELEMENTWISE_H_
#define TOST_OPS_CPU_ELEMENTWISE_H_

#include "autograd/tensor.h"

namespace tost::ops::cpu {

// In all of these the operands broadcast to the shape of the last tensor, which is overwritten, or
// added to when `add`.

// y = F(x).
template <class F>
void Unary(const F& f, const Tensor& x, Tensor& y);

// dx = F.Backward(saved, dy). dx is of dy's dtype, or of its accumulation dtype.
template <class F>
void UnaryBackward(const F& f, const Tensor& saved, const Tensor& dy, Tensor& dx, bool add);

// y = F(a, b). y is of the operands' dtype, or of its accumulation dtype.
template <class F>
void Binary(const F& f, const Tensor& a, const Tensor& b, Tensor& y, bool add);

enum class Side { kLeft, kRight };

// out = F.Left(a, b, dy) or F.Right(a, b, dy), of dy's shape. Dtypes as for Binary.
template <class F>
void BinaryBackward(const F& f, Side side, const Tensor& a, const Tensor& b, const Tensor& dy,
                    Tensor& out, bool add);

// y = condition ≠ 0 ? a : b.
void Where(const Tensor& condition, const Tensor& a, const Tensor& b, Tensor& y);

// y = scale · x between any two floating dtypes.
void ScaledCopy(double scale, const Tensor& x, Tensor& y, bool add);

}  // namespace tost::ops::cpu

#endif  // TOST_OPS_CPU_ELEMENTWISE_H_
