// CPU kernels of ops/layer_norm.h, where their meaning is written.
#ifndef TOST_OPS_CPU_LAYER_NORM_H_
#define TOST_OPS_CPU_LAYER_NORM_H_

#include "autograd/tensor.h"

namespace tost::ops {

struct LayerNormGradients;

namespace cpu {

void LayerNorm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon, Tensor& y,
               Tensor& mean, Tensor& rstd);
void LayerNormBackward(const Tensor& x, const Tensor& weight, const Tensor& mean,
                       const Tensor& rstd, const Tensor& dy, LayerNormGradients& out);

}  // namespace cpu
}  // namespace tost::ops

#endif  // TOST_OPS_CPU_LAYER_NORM_H_
