// CPU kernel of ops/dropout.h, where its meaning is written.
#ifndef TOST_OPS_CPU_DROPOUT_H_
#define TOST_OPS_CPU_DROPOUT_H_

#include "autograd/tensor.h"

namespace tost::ops {

struct DropoutOptions;

namespace cpu {

void Dropout(const DropoutOptions& options, const Tensor& x, Tensor& y);

}  // namespace cpu
}  // namespace tost::ops

#endif  // TOST_OPS_CPU_DROPOUT_H_
