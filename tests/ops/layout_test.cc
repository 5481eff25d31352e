#include "ops/layout.h"

#include <numeric>
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

using testing::Each;
using testing::ElementsAre;

// 0, 1, 2, …
Tensor Count(const Shape& shape) {
  std::vector<float> values(static_cast<size_t>(shape.numel()));
  std::iota(values.begin(), values.end(), 0.0f);
  return Tensor::FromHost(shape, values);
}

Tensor Indices(const Shape& shape, const std::vector<int32_t>& values) {
  return Tensor::FromHost(shape, values);
}

TEST(Reshape, SharesTheBufferAndTheGradient) {
  const Tensor x = Leaf(Count({2, 6}));
  const Tensor y = Reshape(x, {3, -1});
  EXPECT_EQ(y.shape(), (Shape{3, 4}));
  EXPECT_EQ(y.data<float>(), x.data<float>());
  EXPECT_EQ(y.grad(), x.grad());
}

TEST(Reshape, BackwardMayStartFromAReshapedResult) {
  const Tensor x = Leaf(Count({2, 3}));
  Tape tape;
  const Tensor y = Reshape(Transpose(x * 2), {6});
  tape.BackwardFrom(y, Count({6}));
  EXPECT_THAT(x.grad()->value().ToHost(), ElementsAre(0, 4, 8, 2, 6, 10));
}

TEST(Permute, MovesEveryElement) {
  // Extents beyond a tile, merged axes, both kinds of innermost axis.
  const Shape shape{3, 5, 37, 41};
  const Tensor x = Count(shape);
  for (const std::vector<int>& axes : std::vector<std::vector<int>>{{0, 1, 2, 3},
                                                                    {1, 0, 2, 3},
                                                                    {0, 2, 1, 3},
                                                                    {0, 1, 3, 2},
                                                                    {3, 2, 1, 0},
                                                                    {2, 3, 0, 1},
                                                                    {1, 3, 0, 2}}) {
    const Tensor y = Permute(x, axes);
    const std::vector<float> values = y.ToHost();
    for (int64_t i = 0; i < y.numel(); ++i) {
      int64_t rest = i, expected = 0;
      for (int k = 3; k >= 0; --k) {
        const int axis = axes[static_cast<size_t>(k)];
        expected += rest % shape[axis] * shape.After(axis);
        rest /= shape[axis];
      }
      ASSERT_EQ(values[static_cast<size_t>(i)], static_cast<float>(expected)) << y.shape();
    }
  }
}

TEST(Transpose, SwapsTheLastTwoAxes) {
  const Tensor y = Transpose(Count({2, 2, 3}));
  EXPECT_EQ(y.shape(), (Shape{2, 3, 2}));
  EXPECT_THAT(y.ToHost(), ElementsAre(0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11));
}

TEST(Concat, IsUndoneBySplit) {
  const Tensor a = Count({2, 1, 2}), b = Count({2, 3, 2});
  const Tensor y = Concat({a, b}, 1);
  EXPECT_EQ(y.shape(), (Shape{2, 4, 2}));
  const std::vector<Tensor> parts = Split(y, {1, 3}, 1);
  EXPECT_EQ(parts[0].ToHost(), a.ToHost());
  EXPECT_EQ(parts[1].ToHost(), b.ToHost());
}

TEST(Split, UnusedPartsHaveZeroGradient) {
  const Tensor x = Leaf(Count({2, 3}));
  Tape tape;
  tape.Backward(Sum(Split(x, {1, 2}, 1)[0]));
  EXPECT_THAT(x.grad()->value().ToHost(), ElementsAre(1, 0, 0, 1, 0, 0));
}

TEST(Pad, SurroundsWithZeros) {
  EXPECT_THAT(Pad(Count({2, 2}) + 1, 1, 1, 2).ToHost(), ElementsAre(0, 1, 2, 0, 0, 0, 3, 4, 0, 0));
}

TEST(BroadcastTo, RepeatsAlongNewAndUnitAxes) {
  EXPECT_THAT(BroadcastTo(Count({2, 1}), {2, 2, 2}).ToHost(), ElementsAre(0, 0, 1, 1, 0, 0, 1, 1));
}

TEST(IndexSelect, PicksAlongAnAxis) {
  const Tensor x = Count({2, 3});
  EXPECT_THAT(IndexSelect(x, 1, Indices({2}, {2, 0})).ToHost(), ElementsAre(2, 0, 5, 3));
  EXPECT_THAT(IndexSelect(x, 0, Indices({3}, {1, 1, 0})).ToHost(),
              ElementsAre(3, 4, 5, 3, 4, 5, 0, 1, 2));
}

TEST(Gather, PicksWithAnIndexPerElement) {
  EXPECT_THAT(Gather(Count({2, 3}), 1, Indices({2, 2}, {2, 0, 1, 1})).ToHost(),
              ElementsAre(2, 0, 4, 4));
  EXPECT_THAT(Gather(Count({2, 3}), 0, Indices({1, 3}, {1, 0, 1})).ToHost(), ElementsAre(3, 1, 5));
}

TEST(IndexSelect, GradientOfBFloat16IsSummedInFloat) {
  const Tensor x = Leaf(Converted(Count({2, 1}), DType::kBFloat16));
  Tape tape;
  const Tensor y = IndexSelect(x, 0, Indices({1024}, std::vector<int32_t>(1024, 1)));
  tape.Backward(Sum(y));
  EXPECT_THAT(x.grad()->value().ToHost(), ElementsAre(0, 1024));
}

TEST(IndexSelect, BitsDoNotDependOnTheNumberOfThreads) {
  const Tensor dy = Converted(RandomTensor({3, 500, 200}, 1), DType::kFloat32);
  std::vector<int32_t> picks(500);
  for (size_t i = 0; i < picks.size(); ++i) picks[i] = static_cast<int32_t>(i * i % 7);
  auto run = [&](int threads) {
    const int before = ThreadCount();
    SetThreadCount(threads);
    const Tensor x = Leaf(Count({3, 7, 200}));
    Tape tape;
    tape.BackwardFrom(IndexSelect(x, 1, Indices({500}, picks)), dy);
    SetThreadCount(before);
    return x.grad()->value().ToHost();
  };
  EXPECT_EQ(run(4), run(1));
}

TEST(Layout, ErrorsNameTheRule) {
  EXPECT_EQ(ReshapeShape({2, 3}, {4, -1}).status().message(),
            "Reshape: 6 elements of [2, 3] do not fit [4, -1]");
  EXPECT_EQ(ReshapeShape({2, 3}, {-1, -1}).status().message(),
            "Reshape: more than one extent of [-1, -1] is negative");
  EXPECT_EQ(PermuteShape({2, 3}, {0, 0}).status().message(),
            "Permute: {0, 0} does not name each axis of [2, 3] once");
  EXPECT_EQ(PermuteShape({2, 3}, {0}).status().message(),
            "Permute: {0} does not name each axis of [2, 3] once");
  EXPECT_EQ(TransposeShape({3}).status().message(), "Transpose: [3] has fewer than two axes");
  EXPECT_EQ(BroadcastToShape({2}, {3}).status().message(),
            "BroadcastTo: [2] does not broadcast to [3]");
  EXPECT_EQ(BroadcastToShape({2, 3}, {3}).status().message(),
            "BroadcastTo: [2, 3] does not broadcast to [3]");
  EXPECT_EQ(ConcatShape({}, 0).status().message(), "Concat: no parts");
  EXPECT_EQ(ConcatShape(std::vector<Shape>{{2, 3}, {2, 4}}, 0).status().message(),
            "Concat: [2, 3] and [2, 4] differ outside axis 0");
  EXPECT_EQ(CheckSplit({2, 3}, {1, 1}, 1).message(),
            "Split: parts {1, 1} do not make up axis 1 of [2, 3]");
  EXPECT_EQ(SliceShape({2, 3}, 1, 2, 4).status().message(),
            "Slice: [2, 4) does not lie within axis 1 of [2, 3]");
  EXPECT_EQ(PadShape({2, 3}, 1, -1, 0).status().message(), "Pad: -1 and 0 zeros around [2, 3]");
  EXPECT_EQ(IndexSelectShape({2, 3}, 0, {2, 2}).status().message(),
            "IndexSelect: the indices [2, 2] must have one axis (x [2, 3])");
  EXPECT_EQ(GatherShape({2, 3}, 1, {3, 1}).status().message(),
            "Gather: indices [3, 1] and x [2, 3] differ outside axis 1");
  EXPECT_EQ(SliceShape({2, 3}, 2, 0, 1).status().message(), "Slice: axis 2 of a tensor [2, 3]");
}

TEST(Layout, IndicesAreChecked) {
  const Tensor x = Count({2, 3});
  EXPECT_DEATH(IndexSelect(x, 1, Indices({2}, {0, 3})),
               "IndexSelect: index 3 at position 1 is outside \\[0, 3\\)");
  EXPECT_DEATH(Gather(x, 0, Indices({1, 3}, {0, 1, -1})),
               "Gather: index -1 at position 2 is outside \\[0, 2\\)");
}

}  // namespace
}  // namespace tost::ops
