#include "autograd/recompute.h"

#include <utility>
#include <vector>

#include "autograd/tape.h"

namespace tost {

Tensor Recompute(std::function<Tensor(const Tensor&)> block, const Tensor& x) {
  Tape* tape = Tape::Current();
  if (tape == nullptr) return block(x);

  Tensor y;
  std::vector<GradPtr> inputs{x.grad()};
  {
    Tape first_forward(Tape::Kind::kLeavesOnly);
    y = block(x.Detached());
    // The outer tape must know the leaves inside, so that it announces them ready after this node.
    inputs.insert(inputs.end(), first_forward.leaves().begin(), first_forward.leaves().end());
  }
  return tape->Record("recompute", std::move(inputs), y.Detached(),
                      [block = std::move(block), x = Saved(x)](const Tensor& dy) {
                        Tape second_forward;
                        const Tensor output = block(x.Wired());
                        second_forward.BackwardFrom(output, dy);
                      });
}

}  // namespace tost
