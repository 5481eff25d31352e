// CPU kernels of ops/class_attention.h, where their meaning is written.
#ifndef TOST_OPS_CPU_CLASS_ATTENTION_H_
#define TOST_OPS_CPU_CLASS_ATTENTION_H_

#include "autograd/tensor.h"

namespace tost::ops {

struct ClassAttentionDims;

namespace cpu {

void ClassAttention(const ClassAttentionDims& dims, const Tensor& qkv, Tensor& y, Tensor& p);
void ClassAttentionBackward(const ClassAttentionDims& dims, const Tensor& qkv, const Tensor& p,
                            const Tensor& dy, bool add, Tensor& dqkv);

}  // namespace cpu
}  // namespace tost::ops

#endif  // TOST_OPS_CPU_CLASS_ATTENTION_H_
