#include "autograd/tensor.h"

#include <vector>

#include "autograd/tape.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tost {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

Tensor Counting(Shape shape) {
  std::vector<float> values(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return Tensor::FromHost(shape, values);
}

TEST(Tensor, UndefinedStandsForAnAbsentOperand) {
  EXPECT_FALSE(Tensor().defined());
  EXPECT_EQ(Tensor().grad(), nullptr);
}

TEST(Tensor, FromHostKeepsValuesAndTakesTheirType) {
  EXPECT_THAT(Counting({2, 2}).ToHost(), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(Tensor::FromHost({1}, std::vector<double>{1}).dtype(), DType::kFloat64);
  EXPECT_EQ(Tensor::FromHost({1}, std::vector<int32_t>{1}).dtype(), DType::kInt32);
  EXPECT_EQ(Tensor::FromHost({1}, std::vector<uint16_t>{1}).dtype(), DType::kUint16);
  EXPECT_EQ(Tensor::FromHost({1}, std::vector<bfloat16>{bfloat16(1.0f)}).dtype(), DType::kBFloat16);
}

TEST(Tensor, ZerosAndScalars) {
  EXPECT_THAT(Tensor::Zeros({3}, DType::kBFloat16).ToHost(), Each(0.0f));
  EXPECT_EQ(Tensor::Scalar(0.1, DType::kFloat64).Item(), 0.1);
  EXPECT_EQ(Tensor::Scalar(2.5).shape(), Shape());
}

TEST(Tensor, EmptyExtentsAreAllowed) {
  const Tensor none = Tensor::Zeros({0, 5}, DType::kFloat32);
  EXPECT_TRUE(none.defined());
  EXPECT_TRUE(none.ToHost().empty());
}

TEST(Tensor, ToHostConverts) {
  const Tensor tokens = Tensor::FromHost({3}, std::vector<uint16_t>{1, 2, 65535});
  EXPECT_THAT(tokens.ToHost<int32_t>(), ElementsAre(1, 2, 65535));
  EXPECT_THAT(tokens.ToHost<double>(), ElementsAre(1.0, 2.0, 65535.0));
}

TEST(Tensor, ConvertedRoundsAndCopies) {
  const Tensor x = Tensor::FromHost({2}, std::vector<float>{1.0f, 1.00390625f});  // 1 + 2^-8
  EXPECT_THAT(Converted(x, DType::kBFloat16).ToHost(), ElementsAre(1.0f, 1.0f));
  EXPECT_THAT(Converted(x, DType::kFloat64).ToHost<double>(), ElementsAre(1.0, 1.00390625));
}

TEST(Tensor, ReshapedSharesBytesAndCell) {
  const Tensor x = Leaf(Counting({2, 3}));
  const Tensor y = x.Reshaped({3, 2});
  EXPECT_EQ(y.raw(), x.raw());
  EXPECT_EQ(y.grad(), x.grad());
  EXPECT_EQ(y.shape(), (Shape{3, 2}));
}

TEST(Tensor, SliceAndViewShareBytesWithoutGradient) {
  const Tensor x = Leaf(Counting({4, 3}));
  const Tensor rows = x.Slice(1, 2);
  EXPECT_THAT(rows.ToHost(), ElementsAre(3, 4, 5, 6, 7, 8));
  EXPECT_EQ(rows.shape(), (Shape{2, 3}));
  EXPECT_EQ(rows.grad(), nullptr);
  EXPECT_THAT(rows.Slice(1, 1).ToHost(), ElementsAre(6, 7, 8));  // offsets add up
  EXPECT_THAT(x.View(5, {2, 2}).ToHost(), ElementsAre(5, 6, 7, 8));
  EXPECT_EQ(x.View(5, {2, 2}).raw(), x.raw() + 5 * sizeof(float));
}

TEST(Tensor, HandlesShareAndKnowWhenTheyAreAlone) {
  Tensor x = Counting({2});
  EXPECT_TRUE(x.UniquelyOwned());
  {
    const Tensor view = x.Slice(0, 1);
    EXPECT_FALSE(x.UniquelyOwned());
  }
  EXPECT_TRUE(x.UniquelyOwned());
}

TEST(Tensor, BytesGoBackWithTheLastHandle) {
  const int64_t before = RuntimeOf(Device::Cpu()).Memory().live_bytes;
  {
    Tensor view;
    {
      const Tensor x = Counting({1000});
      view = x.Slice(0, 1);
    }
    EXPECT_GT(RuntimeOf(Device::Cpu()).Memory().live_bytes, before);
  }
  EXPECT_EQ(RuntimeOf(Device::Cpu()).Memory().live_bytes, before);
}

TEST(Tensor, VersionRisesWithEveryAskToWriteThroughAnyHandle) {
  Tensor x = Counting({4});
  Tensor view = x.Slice(0, 2);
  const uint64_t before = x.version();
  EXPECT_EQ(x.data<float>()[0], 0.0f);
  EXPECT_EQ(x.version(), before);
  view.mutable_data<float>()[0] = 5;
  EXPECT_GT(x.version(), before);
  EXPECT_EQ(x.ToHost()[0], 5.0f);
}

TEST(Tensor, DetachedForgetsTheCellOnly) {
  const Tensor x = Leaf(Counting({2}));
  EXPECT_NE(x.grad(), nullptr);
  EXPECT_TRUE(x.grad()->is_leaf());
  EXPECT_EQ(x.Detached().grad(), nullptr);
  EXPECT_EQ(x.Detached().raw(), x.raw());
}

TEST(TensorDeathTest, MisuseIsNamed) {
  const Tensor x = Counting({2, 3});
  EXPECT_DEATH(Tensor().raw(), "use of an undefined tensor");
  EXPECT_DEATH(Tensor().device(), "use of an undefined tensor");
  EXPECT_DEATH(x.data<double>(), "tensor of float32 read as float64");
  EXPECT_DEATH(x.Reshaped({5}), "Reshaped: \\[2, 3\\] to \\[5\\]");
  EXPECT_DEATH(x.Slice(1, 2), "Slice: rows \\[1, 3\\) of \\[2, 3\\]");
  EXPECT_DEATH(x.View(4, {3}), "View: \\[3\\] at element 4 of \\[2, 3\\]");
  EXPECT_DEATH(x.Item(), "Item: shape \\[2, 3\\]");
  EXPECT_DEATH(Tensor::FromHost({3}, std::vector<float>{1}), "FromHost: \\[3\\]");
  EXPECT_DEATH(Tensor::Empty({-1}, DType::kFloat32), "shape \\[-1\\] has a negative extent");
}

}  // namespace
}  // namespace tost
