#include <functional>

#include "autograd/tape.h"
#include "gtest/gtest.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/softmax.h"

namespace tost {
namespace {

Tensor Ones() { return Leaf(Tensor::FromHost({2, 2}, std::vector<float>{1, 1, 1, 1})); }

TEST(T4, WritingIntoAnInputThatBackwardNeedsNamesTheOperation) {
  const std::vector<std::pair<std::function<Tensor(const Tensor&)>, const char*>> ops{
      {[](const Tensor& x) { return x * x; }, "multiply"},
      {[](const Tensor& x) { return ops::Log(x); }, "log"},
      {[](const Tensor& x) { return ops::Matmul(x, x); }, "matmul"},
  };
  for (const auto& [op, name] : ops) {
    Tensor x = Ones();
    Tape tape;
    const Tensor y = op(x);
    x.mutable_data<float>()[0] = 2;
    EXPECT_DEATH(tape.BackwardFrom(y, Ones().Detached()), name);
  }
}

TEST(T4, WritingIntoAResultThatBackwardNeedsNamesTheOperation) {
  const Tensor x = Ones();
  Tape tape;
  Tensor y = ops::Softmax(x, -1);
  y.mutable_data<float>()[0] = 2;
  EXPECT_DEATH(tape.BackwardFrom(y, Ones().Detached()), "softmax");
}

TEST(T4, WritingIntoAValueThatBackwardDoesNotNeedIsFine) {
  Tensor x = Ones();
  Tape tape;
  const Tensor y = x + x;
  x.mutable_data<float>()[0] = 7;
  tape.BackwardFrom(y, Ones().Detached());
  EXPECT_EQ(x.grad()->value().ToHost(), std::vector<float>(4, 2));
}

}  // namespace
}  // namespace tost
