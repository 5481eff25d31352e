// Tssa: shapes, properties, types, threads. Its values are in tssa_formula_test.cc and the golden
// tests.
#include "ops/tssa.h"

#include <cmath>

#include "autograd/base/parallel.h"
#include "autograd/gradcheck.h"
#include "autograd/tape.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tost {
namespace {

using testing::HasSubstr;

std::string MessageOf(const absl::StatusOr<ops::TssaDims>& dims) {
  return std::string(dims.status().message());
}

TEST(TssaShape, TakesDimensionsFromTheOperands) {
  const ops::TssaDims dims = *ops::TssaShape({2, 7, 12}, {3, 1});
  EXPECT_EQ(dims.batch, 2);
  EXPECT_EQ(dims.tokens, 7);
  EXPECT_EQ(dims.heads, 3);
  EXPECT_EQ(dims.head_dim, 4);
}

TEST(TssaShape, SaysWhatIsWrong) {
  EXPECT_THAT(MessageOf(ops::TssaShape({7, 12}, {3, 1})),
              HasSubstr("Tssa: w must be [batch, tokens, width] (w [7, 12], temp [3, 1])"));
  EXPECT_THAT(MessageOf(ops::TssaShape({2, 7, 12}, {3})), HasSubstr("temp must be [heads, 1]"));
  EXPECT_THAT(MessageOf(ops::TssaShape({2, 7, 12}, {5, 1})),
              HasSubstr("the width must be a multiple of the number of heads"));
  EXPECT_THAT(MessageOf(ops::TssaShape({2, 0, 12}, {3, 1})), HasSubstr("an extent is 0"));
  const Shape mask{2, 7, 12};
  EXPECT_THAT(MessageOf(ops::TssaShape({2, 7, 12}, {3, 1}, &mask)),
              HasSubstr("Tssa: mask is [2, 7, 12] but must be [2, 1, 12]"));
}

TEST(TssaDeathTest, TemperatureComesInTheTypeOfTheStatistics) {
  const Tensor w = Tensor::Zeros({1, 2, 4}, DType::kBFloat16);
  EXPECT_DEATH(ops::Tssa(w, Tensor::Zeros({2, 1}, DType::kBFloat16)),
               "temp is bfloat16 but w is bfloat16, which needs float32");
}

Tensor Values(Shape shape, uint64_t seed, DType dtype = DType::kFloat32) {
  return Converted(RandomTensor(shape, seed), dtype);
}

struct Gradients {
  std::vector<float> y, dw, dtemp;
  friend bool operator==(const Gradients&, const Gradients&) = default;
};

Gradients BothPasses(const Tensor& w_value, const Tensor& temp_value, int passes = 1) {
  const Tensor w = Leaf(w_value), temp = Leaf(temp_value);
  const Tensor dy = Converted(Values(w.shape(), 5, DType::kBFloat16), w.dtype());
  Gradients result;
  for (int pass = 0; pass < passes; ++pass) {
    Tape tape;
    const Tensor y = ops::Tssa(w, temp);
    tape.BackwardFrom(y, dy);
    result.y = y.ToHost();
  }
  result.dw = w.grad()->value().ToHost();
  result.dtemp = temp.grad()->value().ToHost();
  return result;
}

std::vector<float> RoundedToBFloat16(const std::vector<float>& x) {
  std::vector<float> y;
  for (float value : x) y.push_back(bfloat16(value));
  return y;
}

TEST(Tssa, ThreadsDoNotChangeABit) {
  const Tensor w = Values({3, 150, 12 * 64}, 1), temp = Values({12, 1}, 2);
  const int threads = ThreadCount();
  SetThreadCount(1);
  const Gradients alone = BothPasses(w, temp);
  SetThreadCount(2);
  const Gradients together = BothPasses(w, temp);
  SetThreadCount(threads);
  EXPECT_EQ(alone, together);
}

// The official formulas give a softmax over heads, which is 1 for one head: temp has no effect.
TEST(Tssa, OneHeadHasMembershipOneAndNoTemperatureGradient) {
  const Tensor w = Values({2, 5, 6}, 1);
  EXPECT_EQ(ops::TssaMemberships(w, Values({1, 1}, 2)).ToHost(), std::vector<float>(10, 1.0f));
  EXPECT_EQ(BothPasses(w, Values({1, 1}, 2)).dtemp[0], 0);
}

TEST(Tssa, AllZeroTokensGiveZeroAndFiniteGradients) {
  const Gradients result = BothPasses(Tensor::Zeros({1, 4, 6}, DType::kFloat32), Values({2, 1}, 2));
  for (float y : result.y) EXPECT_EQ(y, 0);
  for (float dw : result.dw) EXPECT_TRUE(std::isfinite(dw));
}

TEST(Tssa, AZeroMaskSilencesItsChannelForAllTokens) {
  const Tensor w = Values({1, 5, 4}, 1);
  const Tensor mask = Tensor::FromHost({1, 1, 4}, std::vector<float>{2, 0, 1, 1});
  const std::vector<float> plain = ops::Tssa(w, Values({2, 1}, 2)).ToHost();
  const std::vector<float> masked = ops::Tssa(w, Values({2, 1}, 2), mask).ToHost();
  for (size_t t = 0; t < 5; ++t) {
    EXPECT_EQ(masked[t * 4], 2 * plain[t * 4]);
    EXPECT_EQ(masked[t * 4 + 1], 0);
    EXPECT_EQ(masked[t * 4 + 2], plain[t * 4 + 2]);
  }
}

// Statistics are float32 whatever w is: bfloat16 results are the float32 ones, rounded once.
TEST(Tssa, BFloat16RoundsOnlyResults) {
  const Tensor w = Values({2, 40, 3 * 20}, 1, DType::kBFloat16), temp = Values({3, 1}, 2);
  const Gradients rounded = BothPasses(w, temp);
  const Gradients exact = BothPasses(Converted(w, DType::kFloat32), temp);
  EXPECT_EQ(rounded.y, RoundedToBFloat16(exact.y));
  EXPECT_EQ(rounded.dw, RoundedToBFloat16(exact.dw));
  EXPECT_EQ(rounded.dtemp, exact.dtemp);
}

// Π = softmax over heads of temp_h Σ_i w², by hand: logits 1 · (1 + 4) and 2 · (0 + ¼).
TEST(Tssa, UnnormalizedMembershipsAreOfTheSquaresThemselves) {
  const Tensor w = Tensor::FromHost({1, 1, 4}, std::vector<double>{1, -2, 0, 0.5});
  const Tensor temp = Tensor::FromHost({2, 1}, std::vector<double>{1, 2});
  const std::vector<double> pi =
      ops::TssaMemberships(w, temp, {.normalized = false}).ToHost<double>();
  EXPECT_NEAR(pi[0], 1 / (1 + std::exp(0.5 - 5)), 1e-15);
  EXPECT_NEAR(pi[1], 1 / (1 + std::exp(5 - 0.5)), 1e-15);
}

// Logits of 1e10 and more, of either sign, in float32.
TEST(Tssa, UnnormalizedIsFiniteForLargeTokens) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Tensor w = Leaf(Converted(RandomTensor({2, 40, 3 * 20}, 1, -1e4, 1e4), dtype));
    const Tensor temp = Leaf(Tensor::FromHost({3, 1}, std::vector<float>{30, -1, 1}));
    Tape tape;
    const Tensor y = ops::Tssa(w, temp, {}, {.normalized = false});
    tape.BackwardFrom(y, Values(y.shape(), 5, dtype));
    for (const Tensor& values : {y, w.grad()->value(), temp.grad()->value()}) {
      for (const float value : values.ToHost()) ASSERT_TRUE(std::isfinite(value));
    }
  }
}

// Doubling is exact, and so is adding a value to itself.
TEST(Tssa, GradientsAddUp) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Tensor w = Values({1, 75, 3 * 20}, 1, dtype), temp = Values({3, 1}, 2);
    Gradients once = BothPasses(w, temp);
    const Gradients twice = BothPasses(w, temp, /*passes=*/2);
    for (float& value : once.dw) value *= 2;
    for (float& value : once.dtemp) value *= 2;
    EXPECT_EQ(twice.dw, once.dw);
    EXPECT_EQ(twice.dtemp, once.dtemp);
  }
}

}  // namespace
}  // namespace tost
