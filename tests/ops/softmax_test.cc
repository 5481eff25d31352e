#include "ops/softmax.h"

#include <cmath>
#include <limits>
#include <vector>

#include "autograd/base/parallel.h"
#include "autograd/gradcheck.h"
#include "autograd/tape.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"

namespace tost::ops {
namespace {

using testing::ElementsAre;

TEST(Softmax, AgreesWithTheFormulaOverEveryAxis) {
  // A few roundings of float; |log y| stays below 16.
  constexpr double kTolerance = 2e-6;
  for (const Shape& shape : {Shape{3, 5, 70}, Shape{2, 600, 3}, Shape{1, 1, 1}, Shape{2, 3, 513}}) {
    const Tensor x = Converted(RandomTensor(shape, 1, -5, 5), DType::kFloat32);
    for (int axis : {0, 1, -1}) {
      const Tensor expected = Exp(x) / Sum(Exp(x), {axis}, true);
      EXPECT_LT(Max(Abs(Softmax(x, axis) - expected)).Item(), kTolerance) << shape << axis;
      EXPECT_LT(Max(Abs(LogSoftmax(x, axis) - Log(expected))).Item(), kTolerance) << shape << axis;
    }
  }
}

TEST(Softmax, DoesNotOverflow) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Tensor x = Tensor::FromHost({3}, std::vector<float>{1e30f, 1e30f, -kInfinity});
  EXPECT_THAT(Softmax(x, 0).ToHost(), ElementsAre(0.5f, 0.5f, 0));
  EXPECT_THAT(LogSoftmax(x, 0).ToHost(), ElementsAre(-std::log(2.0f), -std::log(2.0f), -kInfinity));
}

TEST(Softmax, NanSpoilsItsOwnRowOnly) {
  const Tensor x = Tensor::FromHost({2, 2}, std::vector<float>{0, std::nanf(""), 1, 1});
  const std::vector<float> y = Softmax(x, 1).ToHost();
  EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1]));
  EXPECT_EQ(y[2], 0.5f);
}

TEST(Softmax, BFloat16GradientOfAFloat32Cell) {
  const Tensor master = Leaf(Tensor::FromHost({1, 2}, std::vector<float>{0, 0}));
  const Tensor copy = Converted(master, DType::kBFloat16).WithGrad(master.grad());
  Tape tape;
  const Tensor y = Softmax(copy, 1);
  tape.BackwardFrom(y, Tensor::FromHost({1, 2}, std::vector<bfloat16>{1.0f, 0.0f}));
  EXPECT_THAT(master.grad()->value().ToHost(), ElementsAre(0.25f, -0.25f));
}

TEST(Softmax, ErrorsNameTheAxis) {
  EXPECT_EQ(SoftmaxShape("LogSoftmax", {2, 3}, -3).status().message(),
            "LogSoftmax: axis -3 of a tensor [2, 3]");
  EXPECT_DEATH(Softmax(RandomTensor({2, 3}, 1), 2), "Softmax: axis 2 of a tensor");
}

TEST(Softmax, BitsDoNotDependOnTheNumberOfThreads) {
  const Tensor x = Converted(RandomTensor({40, 30, 50}, 1), DType::kFloat32);
  auto run = [&](int threads) {
    const int before = ThreadCount();
    SetThreadCount(threads);
    const Tensor leaf = Leaf(x);
    Tape tape;
    const Tensor y = Softmax(leaf, 1) * LogSoftmax(leaf, 2);
    tape.Backward(Sum(y));
    SetThreadCount(before);
    return std::vector{y.ToHost(), leaf.grad()->value().ToHost()};
  };
  EXPECT_EQ(run(4), run(1));
}

}  // namespace
}  // namespace tost::ops
