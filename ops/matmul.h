// Products of batches of matrices. The layers' x wᵀ + b is ops/linear.h.
#ifndef TOST_OPS_MATMUL_H_
#define TOST_OPS_MATMUL_H_

#include "absl/status/statusor.h"
#include "autograd/tensor.h"
#include "ops/cpu/matmul.h"
#include "ops/kernel.h"

namespace tost::ops {

// y = a b.   a: [..., m, k]   b: [..., k, n]   →   y: [..., m, n], all of one floating dtype.
// The batch extents before the last two axes broadcast as in elementwise ops. Gradients: da = dy
// bᵀ, db = aᵀ dy, each summed over the batch axes along which the operand repeats.
Tensor Matmul(const Tensor& a, const Tensor& b);
absl::StatusOr<Shape> MatmulShape(const Shape& a, const Shape& b);

using cpu::MatmulForm;
using MatmulFn = void(MatmulForm form, const Tensor& a, const Tensor& b, Tensor& c);
extern Kernel<MatmulFn> matmul_kernel;  // see ops/cpu/matmul.h

}  // namespace tost::ops

#endif  // TOST_OPS_MATMUL_H_
