#include "autograd/tape.h"

#include <utility>

namespace tost {
namespace {

thread_local Tape* current_tape = nullptr;

// While a tape runs backward nothing is recorded: gradients of gradients are not offered.
class NoRecording {
 public:
  NoRecording() : hidden_(std::exchange(current_tape, nullptr)) {}
  ~NoRecording() { current_tape = hidden_; }

 private:
  Tape* hidden_;
};

}  // namespace

Grad::Grad(Shape shape, DType dtype, Device device, Kind kind)
    : shape_(shape), dtype_(dtype), device_(device), kind_(kind) {}

Tensor& Grad::Storage() {
  if (!value_.defined()) value_ = Tensor::Empty(shape_, dtype_, device_);
  return value_;
}

void Grad::Seed(const Tensor& dy) {
  TOST_CHECK(!is_leaf() && !written_) << "Backward must start from the result of an op, once";
  value_ = dy.Detached().Reshaped(shape_);  // y may have been reshaped since the op
  written_ = true;
}

bool Grad::Adopt(const Tensor& dy) {
  const bool fits = dy.dtype() == dtype_ && dy.numel() == shape_.numel();
  if (written_ || is_leaf() || !fits || !dy.UniquelyOwned()) return false;
  value_ = dy.Reshaped(shape_);
  written_ = true;
  return true;
}

const Tensor& Grad::value() const {
  TOST_CHECK(written_)
      << "no gradient has been written: run Backward, or the tensor had no part in "
         "the loss";
  return value_;
}

Tensor Grad::Take() {
  TOST_CHECK(written_) << "no gradient has been written";
  written_ = false;
  return std::exchange(value_, Tensor());
}

Tape::Tape(Kind kind) : kind_(kind), outer_(std::exchange(current_tape, this)) {}

Tape::~Tape() {
  TOST_CHECK(current_tape == this) << "tapes end in the reverse order of their beginning";
  current_tape = outer_;
}

Tape* Tape::Current() { return current_tape; }

Tensor Tape::Record(const char* op, std::vector<GradPtr> inputs, Tensor y, BackwardFn backward) {
  TOST_CHECK(!spent_) << "recording " << op << " on a tape that has already run backward";
  bool wanted = false;
  std::vector<GradPtr> first_used;
  for (GradPtr& input : inputs) {
    if (input == nullptr) continue;
    wanted = true;
    if (input->is_leaf() && met_.insert(input.get()).second) {
      leaves_.push_back(input);
      first_used.push_back(std::move(input));
    }
  }
  if (!wanted || kind_ == Kind::kLeavesOnly) return y;
  auto cell = std::make_shared<Grad>(y.shape(), y.dtype(), y.device(), Grad::Kind::kActivation);
  nodes_.push_back({op, cell, std::move(backward), std::move(first_used)});
  return y.WithGrad(std::move(cell));
}

void Tape::Backward(const Tensor& loss, double scale, Graph graph) {
  TOST_CHECK_EQ(loss.numel(), 1) << "Backward starts from one number, not from " << loss.shape();
  BackwardFrom(loss, Tensor::Scalar(scale, loss.dtype(), loss.device()).Reshaped(loss.shape()),
               graph);
}

void Tape::BackwardFrom(const Tensor& y, const Tensor& dy, Graph graph) {
  TOST_CHECK(!spent_) << "Backward was already called and has freed the graph; the first call must "
                         "keep it (Tape::Graph::kKeep)";
  TOST_CHECK(kind_ == Kind::kFull) << "a leaves-only tape has no graph";
  TOST_CHECK(dy.shape() == y.shape()) << "gradient " << dy.shape() << " of a tensor " << y.shape();
  if (y.grad() != nullptr) y.grad()->Seed(dy);
  Walk(graph);
}

void Tape::Walk(Graph graph) {
  const NoRecording guard;
  if (graph == Graph::kKeep) {
    for (size_t i = nodes_.size(); i-- > 0;) RunNode(nodes_[i]);
    return;
  }
  spent_ = true;
  while (!nodes_.empty()) {
    // The node dies at the end of each turn, and its saved tensors with it.
    const Node node = std::move(nodes_.back());
    nodes_.pop_back();
    RunNode(node);
  }
}

void Tape::RunNode(const Node& node) {
  if (node.output->written()) {
    const OpScope scope(node.op);
    node.backward(node.output->Take());
  }
  if (!on_leaf_ready_) return;
  for (const GradPtr& leaf : node.first_used) on_leaf_ready_(*leaf);
}

Saved::Saved(const Tensor& x) : Saved(x, /*keep_value=*/true) {}

Saved::Saved(const Tensor& x, bool keep_value) : shape_(x.shape()), grad_(x.grad()) {
  if (!keep_value || !x.defined()) return;
  value_ = x.Detached();
  version_ = x.version();
}

const Tensor& Saved::value() const {
  TOST_CHECK(!value_.defined() || value_.version() == version_)
      << "a tensor of shape " << shape_
      << " that backward needs was written to after the op had used it";
  return value_;
}

}  // namespace tost
