// CPU kernels of ops/residual.h, where their meaning is written.
#ifndef TOST_OPS_CPU_RESIDUAL_H_
#define TOST_OPS_CPU_RESIDUAL_H_

#include "autograd/tensor.h"

namespace tost::ops {

struct ScaledResidualGradients;

namespace cpu {

void ScaledResidual(const Tensor& x, const Tensor& gamma, const Tensor& y, Tensor& z);
void ScaledResidualBackward(const Tensor& gamma, const Tensor& y, const Tensor& dz,
                            ScaledResidualGradients& out);
void CopyOrAdd(const Tensor& x, bool add, Tensor& out);

}  // namespace cpu
}  // namespace tost::ops

#endif  // TOST_OPS_CPU_RESIDUAL_H_
