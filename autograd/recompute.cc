#include "autograd/recompute.h"

#include <vector>

#include "autograd/tape.h"

namespace tost {

Tensor RecomputeWith(absl::FunctionRef<Tensor(const Tensor&)> first,
                     std::function<Tensor(const Tensor&)> again, const Tensor& x) {
  Tape* tape = Tape::Current();
  if (tape == nullptr) return first(x);

  Tensor y;
  std::vector<GradPtr> inputs{x.grad()};
  {
    Tape first_forward(Tape::Kind::kLeavesOnly);
    y = first(x.Detached());
    // The outer tape must know the leaves inside, so that it announces them ready after this node.
    inputs.insert(inputs.end(), first_forward.leaves().begin(), first_forward.leaves().end());
  }
  return tape->Record("recompute", std::move(inputs), y.Detached(),
                      [again = std::move(again), x = Saved(x)](const Tensor& dy) {
                        Tape second_forward;
                        const Tensor output = again(x.Wired());
                        second_forward.BackwardFrom(output, dy);
                      });
}

}  // namespace tost
