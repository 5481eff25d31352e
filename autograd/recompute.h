// Activation recomputation: trade a second forward for the memory of the first.
#ifndef TOST_AUTOGRAD_RECOMPUTE_H_
#define TOST_AUTOGRAD_RECOMPUTE_H_

#include <functional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "autograd/tensor.h"

namespace tost {

// y = first(x), keeping only x. Backward runs `again`, which must compute the same value, on a tape
// of its own and propagates through it.
Tensor RecomputeWith(absl::FunctionRef<Tensor(const Tensor&)> first,
                     std::function<Tensor(const Tensor&)> again, const Tensor& x);

// y = block(x, state), keeping only x and a copy of `state` as it was on entry. The first forward
// advances the caller's state, so that what follows draws on; the second starts from the copy and
// draws the same random keys again. `block` is copied and must stay callable until backward.
template <class Block, class State>
Tensor Recompute(Block block, const Tensor& x, State& state) {
  const State entry = state;
  return RecomputeWith([&](const Tensor& input) { return block(input, state); },
                       [block, entry](const Tensor& input) {
                         State replay = entry;
                         return block(input, replay);
                       },
                       x);
}

}  // namespace tost

#endif  // TOST_AUTOGRAD_RECOMPUTE_H_
