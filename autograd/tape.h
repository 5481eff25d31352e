// Reverse-mode automatic differentiation on a linear tape.
//
// While a Tape object lives, ops append a node each: the cell of their output and a closure that
// turns the output's gradient into their inputs'. Reverse execution order is a valid order for the
// chain rule, so Backward walks the list from its end: no sort, no recursion. Without a Tape
// nothing is recorded. docs/autograd.md works one op through by hand.
//
//   Tensor x = Leaf(Tensor::FromHost<double>({2}, std::vector<double>{1, 2}));
//   Tape tape;
//   Tensor y = ops::Sum(x * x);
//   tape.Backward(y);
//   x.grad()->value();   // [2, 4]
#ifndef TOST_AUTOGRAD_TAPE_H_
#define TOST_AUTOGRAD_TAPE_H_

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "autograd/tensor.h"

namespace tost {

// The place where the gradient of one tensor gathers. Backward rules write into it; the first write
// sets, later ones add, so no temporary is summed and nothing is zero-filled first.
class Grad {
 public:
  enum class Kind { kActivation, kLeaf };

  // The gradient has the extents and dtype of the tensor it belongs to.
  Grad(Shape shape, DType dtype, Device device, Kind kind);

  // Calls fill(out, add): write the gradient into `out`, a view with extents `shape`; add to what
  // is there when `add`.
  template <class Fill>
  void Write(const Shape& shape, Fill&& fill) {
    Tensor out = Storage().Reshaped(shape);
    fill(out, written_);
    written_ = true;
  }

  // Starts a backward pass from this cell's tensor. CHECKs that the cell is empty and no leaf.
  void Seed(const Tensor& dy);
  // Takes over `dy` as the whole gradient when nothing has been written yet and nobody else holds
  // it. Returns false, taking nothing, otherwise.
  bool Adopt(const Tensor& dy);

  bool is_leaf() const { return kind_ == Kind::kLeaf; }
  bool written() const { return written_; }
  // The gradient gathered so far. CHECKs that there is one.
  const Tensor& value() const;
  // Hands the gradient out and leaves the cell empty.
  Tensor Take();

  // Lets the gradient live in `storage`, a slice of a bucket.
  void BindTo(Tensor storage) { value_ = std::move(storage); }
  // The next write sets. Touches no memory.
  void Reset() { written_ = false; }

 private:
  Tensor& Storage();

  Shape shape_;
  DType dtype_;
  Device device_;
  Kind kind_;
  bool written_ = false;
  Tensor value_;
};

// Turns the gradient of a node's output into those of its inputs. `dy` is the last handle on the
// gradient unless the graph is kept, so a rule may pass it on with Saved::PassGradient.
using BackwardFn = std::function<void(Tensor dy)>;

class Tape {
 public:
  // kLeavesOnly notes which leaves the ops meet and keeps no nodes: the first, discarded forward of
  // a recomputed block.
  enum class Kind { kFull, kLeavesOnly };
  // kKeep allows further Backward calls on the same graph; leaves then add up.
  enum class Graph { kFree, kKeep };

  explicit Tape(Kind kind = Kind::kFull);  // becomes this thread's current tape
  ~Tape();                                 // and gives way to the one before it
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  // The tape that records on this thread; null outside any, and while one runs backward.
  static Tape* Current();

  // Called by ops. Returns `y` wired to a new cell, or `y` unchanged when no input wants a
  // gradient.
  Tensor Record(const char* op, std::vector<GradPtr> inputs, Tensor y, BackwardFn backward);

  // Propagates d(loss)/d(loss) = scale from a one-element loss to every leaf.
  void Backward(const Tensor& loss, double scale = 1, Graph graph = Graph::kFree);
  // Propagates a given gradient of `y` (a vector-Jacobian product).
  void BackwardFrom(const Tensor& y, const Tensor& dy, Graph graph = Graph::kFree);

  // Called for each leaf met, as soon as Backward can write nothing more into it: after the
  // backward of the node that used it first.
  void set_on_leaf_ready(std::function<void(Grad&)> callback) {
    on_leaf_ready_ = std::move(callback);
  }

  // The leaves met so far, in order of first use.
  const std::vector<GradPtr>& leaves() const { return leaves_; }
  size_t node_count() const { return nodes_.size(); }

 private:
  struct Node {
    const char* op;
    GradPtr output;
    BackwardFn backward;
    std::vector<GradPtr> first_used;
  };

  void Walk(Graph graph);
  void RunNode(const Node& node);

  Kind kind_;
  Tape* outer_;
  bool spent_ = false;
  std::vector<Node> nodes_;
  std::vector<GradPtr> leaves_;
  absl::flat_hash_set<const Grad*> met_;
  std::function<void(Grad&)> on_leaf_ready_;
};

// An input (or the output) of an op as its backward rule keeps it: the value and the cell. Usable
// as a `const Tensor&`; the use CHECKs that nobody has written into the value since.
class Saved {
 public:
  explicit Saved(const Tensor& x);

  operator const Tensor&() const { return value(); }  // NOLINT: stands for the tensor
  const Tensor& value() const;

  bool wants_gradient() const { return grad_ != nullptr; }
  // fill(out, add) as in Grad::Write; does nothing when the input wants no gradient.
  template <class Fill>
  void Gradient(Fill&& fill) const {
    if (grad_ != nullptr) grad_->Write(shape_, std::forward<Fill>(fill));
  }
  // Makes `dy` itself the gradient where nobody would notice; otherwise calls fill(out, add).
  template <class Fill>
  void PassGradient(const Tensor& dy, Fill&& fill) const {
    if (grad_ != nullptr && !grad_->Adopt(dy)) grad_->Write(shape_, std::forward<Fill>(fill));
  }
  const Shape& shape() const { return shape_; }
  // The value wired to its cell again, so that ops applied to it write their gradients there.
  Tensor Wired() const { return value().WithGrad(grad_); }

 protected:
  Saved(const Tensor& x, bool keep_value);

 private:
  Shape shape_;
  GradPtr grad_;
  Tensor value_;
  uint64_t version_ = 0;
};

// An input whose value the rule does not need: the cell and the extents only. An undefined tensor
// (an absent operand) wants no gradient.
class SavedShape : public Saved {
 public:
  explicit SavedShape(const Tensor& x) : Saved(x, /*keep_value=*/false) {}
};

}  // namespace tost

#endif  // TOST_AUTOGRAD_TAPE_H_
