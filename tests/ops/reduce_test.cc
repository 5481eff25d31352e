#include "ops/reduce.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "autograd/base/parallel.h"
#include "autograd/gradcheck.h"
#include "autograd/tape.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/elementwise.h"

namespace tost::ops {
namespace {

using testing::Each;
using testing::ElementsAre;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Tensor Matrix() { return Tensor::FromHost({2, 3}, std::vector<float>{1, 2, 3, 4, 5, 9}); }

TEST(Reduce, ValuesOverEachAxis) {
  const Tensor x = Matrix();
  EXPECT_EQ(Sum(x).Item(), 24);
  EXPECT_EQ(Sum(x).shape(), Shape());
  EXPECT_THAT(Sum(x, {0}).ToHost(), ElementsAre(5, 7, 12));
  EXPECT_THAT(Mean(x, {1}).ToHost(), ElementsAre(2, 6));
  EXPECT_THAT(Max(x, {-1}).ToHost(), ElementsAre(3, 9));
  EXPECT_THAT(Variance(x, {0}).ToHost(), ElementsAre(2.25f, 2.25f, 9));
  EXPECT_THAT(Cumsum(x, 1).ToHost(), ElementsAre(1, 3, 6, 4, 9, 18));
  EXPECT_THAT(Cumsum(x, 0).ToHost(), ElementsAre(1, 2, 3, 5, 7, 12));
  EXPECT_NEAR(
      LogSumExp(x, {0, 1}).Item(),
      std::log(std::exp(1) + std::exp(2) + std::exp(3) + std::exp(4) + std::exp(5) + std::exp(9)),
      1e-6);  // float32 at 9: one ulp is 9.5e-7
}

TEST(Reduce, ShapesWithAndWithoutKeptAxes) {
  const Tensor x = RandomTensor({2, 3, 4}, 1);
  EXPECT_EQ(Sum(x, {1}).shape(), (Shape{2, 4}));
  EXPECT_EQ(Sum(x, {1}, true).shape(), (Shape{2, 1, 4}));
  EXPECT_EQ(Sum(x, {0, -1}).shape(), (Shape{3}));
  EXPECT_EQ(Sum(x, {}, true).shape(), (Shape{1, 1, 1}));
  EXPECT_EQ(*ReduceShape("Sum", {2, 3, 4}, {-2}), (Shape{2, 1, 4}));
}

TEST(Reduce, ErrorsNameTheAxis) {
  EXPECT_EQ(ReduceShape("Mean", {2, 3}, {2}).status().message(), "Mean: axis 2 of a tensor [2, 3]");
  EXPECT_EQ(ReduceShape("Max", {2, 3}, {0, -2}).status().message(),
            "Max: axis -2 is named twice in {0, -2} (x [2, 3])");
  EXPECT_DEATH(Cumsum(Matrix(), 2), "Cumsum: axis 2 of a tensor \\[2, 3\\]");
  EXPECT_DEATH(Max(RandomTensor({2, 0}, 1), {1}), "Max: the maximum of no elements");
}

TEST(Reduce, SumOfNothingIsZero) {
  EXPECT_THAT(Sum(RandomTensor({3, 0}, 1), {1}).ToHost(), ElementsAre(0, 0, 0));
  EXPECT_EQ(Sum(RandomTensor({0, 3}, 1)).Item(), 0);
}

// Long enough for several parts and strips, over all arrangements of kept and reduced axes.
TEST(Reduce, LargeSumsAgreeWithDouble) {
  struct Case {
    Shape shape;
    Axes axes;
  };
  const std::vector<Case> cases{
      {{100003}, {}},       {{3, 20011}, {1}},         {{40009, 5}, {0}},
      {{7, 1031}, {0}},     {{2, 65, 3, 129}, {0, 2}}, {{2, 65, 3, 129}, {1, 3}},
      {{5, 1, 700, 3}, {2}}};
  for (const Case& c : cases) {
    const Tensor x = RandomTensor(c.shape, 3);
    const std::vector<double> values = x.ToHost<double>();
    const Shape kept = *ReduceShape("Sum", c.shape, c.axes),
                strides = BroadcastStrides(kept, c.shape);
    std::vector<double> expected(static_cast<size_t>(kept.numel()));
    for (int64_t i = 0; i < x.numel(); ++i) {
      int64_t rest = i, offset = 0;
      for (int axis = c.shape.rank() - 1; axis >= 0; --axis) {
        offset += rest % c.shape[axis] * strides[axis];
        rest /= c.shape[axis];
      }
      expected[static_cast<size_t>(offset)] += values[static_cast<size_t>(i)];
    }
    const std::vector<double> exact = Sum(x, c.axes).ToHost<double>();
    const std::vector<double> narrow = Sum(Converted(x, DType::kFloat32), c.axes).ToHost<double>();
    for (size_t i = 0; i < expected.size(); ++i) {
      // n roundings of partial sums of size √n, in double and in float.
      ASSERT_NEAR(exact[i], expected[i], 1e-10) << c.shape;
      ASSERT_NEAR(narrow[i], expected[i], 2e-3) << c.shape;
    }
  }
}

TEST(Max, TiesShareTheGradientEqually) {
  const Tensor x = Leaf(Tensor::FromHost({2, 3}, std::vector<float>{1, 5, 5, 2, 2, 2}));
  Tape tape;
  tape.Backward(Sum(Max(x, {1})));
  EXPECT_THAT(x.grad()->value().ToHost(), ElementsAre(0, 0.5f, 0.5f, 1.0f / 3, 1.0f / 3, 1.0f / 3));
}

TEST(Max, NanIsTheMaximum) {
  const Tensor x = Tensor::FromHost({3}, std::vector<float>{1, std::nanf(""), 3});
  EXPECT_TRUE(std::isnan(Max(x).Item()));
}

TEST(LogSumExp, DoesNotOverflow) {
  const Tensor x = Tensor::FromHost({2, 2}, std::vector<float>{1000, 1000, -kInfinity, -kInfinity});
  EXPECT_THAT(LogSumExp(x, {1}).ToHost(), ElementsAre(1000 + std::log(2.0f), -kInfinity));
}

TEST(Variance, IsThatOfThePopulationAndSurvivesALargeMean) {
  const Tensor x = Tensor::FromHost({4}, std::vector<float>{10001, 10002, 10003, 10004});
  EXPECT_EQ(Variance(x).Item(), 1.25);
}

TEST(Reduce, BFloat16AccumulatesInFloat) {
  const Tensor ones = Tensor::FromHost({3, 2048}, std::vector<bfloat16>(6144, bfloat16(1.0f)));
  EXPECT_THAT(Sum(ones, {1}).ToHost(), Each(2048));
  EXPECT_THAT(Sum(ones.Reshaped({2048, 3}), {0}).ToHost(), Each(2048));
  EXPECT_EQ(Sum(ones).dtype(), DType::kBFloat16);
  const Tensor x = Leaf(ones);
  Tape tape;
  tape.Backward(Sum(Variance(x, {1}) + LogSumExp(x, {1}) + Max(x, {1}) + Mean(x, {1})));
  EXPECT_EQ(x.grad()->value().dtype(), DType::kBFloat16);
}

TEST(ReduceTo, AddsWhenAsked) {
  Tensor out = Tensor::FromHost({3}, std::vector<float>{1, 1, 1});
  ReduceTo(Matrix(), out, /*add=*/true, /*scale=*/2);
  EXPECT_THAT(out.ToHost(), ElementsAre(11, 15, 25));
  ReduceTo(Matrix(), out, /*add=*/false);
  EXPECT_THAT(out.ToHost(), ElementsAre(5, 7, 12));
}

TEST(Reduce, BitsDoNotDependOnTheNumberOfThreads) {
  const Tensor x = Converted(RandomTensor({37, 41, 67}, 4), DType::kFloat32);
  auto run = [&](int threads) {
    const int before = ThreadCount();
    SetThreadCount(threads);
    std::vector<std::vector<float>> results;
    for (const Axes& axes : std::vector<Axes>{{}, {0}, {1}, {2}, {0, 2}}) {
      results.push_back(Sum(x, axes).ToHost());
      results.push_back(Variance(x, axes).ToHost());
      results.push_back(LogSumExp(x, axes).ToHost());
    }
    for (int axis : {0, 1, 2}) results.push_back(Cumsum(x, axis).ToHost());
    SetThreadCount(before);
    return results;
  };
  const auto one = run(1);
  EXPECT_EQ(run(2), one);
  EXPECT_EQ(run(5), one);
}

}  // namespace
}  // namespace tost::ops
