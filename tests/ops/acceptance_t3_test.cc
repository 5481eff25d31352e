#include "autograd/tape.h"
#include "gtest/gtest.h"
#include "ops/elementwise.h"

namespace tost {
namespace {

struct Inputs {
  Tensor a = Leaf(Tensor::Scalar(3)), b = Leaf(Tensor::Scalar(5)), d = Leaf(Tensor::Scalar(1));
};

TEST(T3, TwoKeptBackwardCallsAddUp) {
  const Inputs in;
  Tape tape;
  const Tensor e = (in.a + in.b) * in.d;
  tape.Backward(e, 1, Tape::Graph::kKeep);
  EXPECT_EQ(in.a.grad()->value().Item(), 1);
  tape.Backward(e, 1, Tape::Graph::kKeep);
  EXPECT_EQ(in.a.grad()->value().Item(), 2);
  EXPECT_EQ(in.b.grad()->value().Item(), 2);
  EXPECT_EQ(in.d.grad()->value().Item(), 16);
}

TEST(T3, SecondBackwardOnAFreedGraphIsAnError) {
  const Inputs in;
  Tape tape;
  const Tensor e = (in.a + in.b) * in.d;
  tape.Backward(e);
  EXPECT_DEATH(tape.Backward(e), "Backward was already called and has freed the graph");
}

}  // namespace
}  // namespace tost
