// Softmax over one axis on the CPU.
#ifndef TOST_OPS_CPU_SOFTMAX_H_
#define TOST_OPS_CPU_SOFTMAX_H_

#include "autograd/tensor.h"

namespace tost::ops::cpu {

// y = softmax of x over `axis`, or its logarithm. Same shape and dtype.
void Softmax(const Tensor& x, int axis, Tensor& y);
void LogSoftmax(const Tensor& x, int axis, Tensor& y);

// The gradients from the results; dx is of dy's dtype or its accumulation dtype, added to when
// `add`.
//   Softmax:    dx = y (dy − Σ dy y)
//   LogSoftmax: dx = dy − e^y Σ dy
void SoftmaxBackward(const Tensor& y, const Tensor& dy, int axis, Tensor& dx, bool add);
void LogSoftmaxBackward(const Tensor& y, const Tensor& dy, int axis, Tensor& dx, bool add);

}  // namespace tost::ops::cpu

#endif  // TOST_OPS_CPU_SOFTMAX_H_
