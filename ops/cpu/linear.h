// CPU kernels of ops/linear.h, where their meaning is written.
#ifndef TOST_OPS_CPU_LINEAR_H_
#define TOST_OPS_CPU_LINEAR_H_

#include "autograd/tensor.h"

namespace tost::ops {

struct GemmOptions;

namespace cpu {

void GemmOfTensors(const GemmOptions& options, const Tensor& a, const Tensor& b, Tensor& c);
void Linear(const Tensor& x, const Tensor& w, const Tensor& b, Tensor& y);
// u[r, c] += bias[c] (bias may be undefined) and y = GELU(u), on a fresh u.
void BiasGelu(const Tensor& bias, Tensor& u, Tensor& y);
void LinearGelu(const Tensor& x, const Tensor& w, const Tensor& b, Tensor& u, Tensor& y);
void LinearGeluBackward(const Tensor& u, const Tensor& dy, Tensor& du);
void SumRows(const Tensor& x, bool add, Tensor& out);

}  // namespace cpu
}  // namespace tost::ops

#endif  // TOST_OPS_CPU_LINEAR_H_
