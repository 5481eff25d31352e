// Batches of matrix products on the CPU.
#ifndef TOST_OPS_CPU_MATMUL_H_
#define TOST_OPS_CPU_MATMUL_H_

#include "autograd/tensor.h"

namespace tost::ops::cpu {

struct MatmulForm {
  bool transpose_a = false, transpose_b = false, add = false;
};

// c = op(a) · op(b) for every matrix of a batch, added to c when `add`; op transposes the last two
// axes where the form says so. The batch axes, all but the last two, of a, b and c broadcast to one
// batch shape; products along axes where c repeats are summed, in order. c is of the operands'
// dtype or of its accumulation dtype.
void Matmul(MatmulForm form, const Tensor& a, const Tensor& b, Tensor& c);

}  // namespace tost::ops::cpu

#endif  // TOST_OPS_CPU_MATMUL_H_
