// Reductions on the CPU. Instantiated in reduce.cc for every functor of ops/reduce_functors.h.
#ifndef TOST_OPS_CPU_REDUCE_H_
#define TOST_OPS_CPU_REDUCE_H_

#include "autograd/tensor.h"

namespace tost::ops::cpu {

// out = scale · F over those axes of x along which out, broadcast to x's shape, repeats; added to
// out when `add`. `center` has one element per element of out, in x's accumulation dtype; undefined
// if F has none. x and out are of any floating dtypes.
template <class F>
void Reduce(const Tensor& x, const Tensor& center, double scale, Tensor& out, bool add);

// dx = weight · F.Slope(x, center), with weight and center (both in x's accumulation dtype)
// broadcast to x's shape.
template <class F>
void ReduceBackward(const Tensor& x, const Tensor& center, const Tensor& weight, Tensor& dx,
                    bool add);

// y[…, i, …] = Σ_{j ≤ i} x[…, j, …] along `axis`, or over j ≥ i when `reverse`.
void Cumsum(const Tensor& x, int axis, bool reverse, Tensor& y, bool add);

}  // namespace tost::ops::cpu

#endif  // TOST_OPS_CPU_REDUCE_H_
