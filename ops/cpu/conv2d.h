// CPU kernels of ops/conv2d.h, where their meaning is written.
#ifndef TOST_OPS_CPU_CONV2D_H_
#define TOST_OPS_CPU_CONV2D_H_

#include "autograd/tensor.h"

namespace tost::ops {

struct Conv2dDims;
struct ConvWeightLayout;

namespace cpu {

void Unfold(const Conv2dDims& dims, const Tensor& x, Tensor& patches);
void Fold(const Conv2dDims& dims, const Tensor& patches, bool add, Tensor& x);
void RearrangeConvWeight(const Conv2dDims& dims, const ConvWeightLayout& layout, const Tensor& from,
                         Tensor& to);

}  // namespace cpu
}  // namespace tost::ops

#endif  // TOST_OPS_CPU_CONV2D_H_
