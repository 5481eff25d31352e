// Activation recomputation: trade a second forward for the memory of the first.
#ifndef TOST_AUTOGRAD_RECOMPUTE_H_
#define TOST_AUTOGRAD_RECOMPUTE_H_

#include <functional>

#include "autograd/tensor.h"

namespace tost {

// y = block(x), keeping only x. Backward runs the block once more on a tape of its own and
// propagates through it. `block` must compute the same value both times: it captures by value
// whatever it draws random keys from, and reads nothing that changes in between.
Tensor Recompute(std::function<Tensor(const Tensor&)> block, const Tensor& x);

}  // namespace tost

#endif  // TOST_AUTOGRAD_RECOMPUTE_H_
