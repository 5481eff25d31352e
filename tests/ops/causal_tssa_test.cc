// CausalTssa: shapes, properties, types, threads. Its values are in tssa_formula_test.cc and the
// golden tests, streaming in acceptance_tssa_test.cc.
#include <cmath>

#include "autograd/base/parallel.h"
#include "autograd/gradcheck.h"
#include "autograd/tape.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/tssa.h"

namespace tost {
namespace {

using testing::HasSubstr;

std::string MessageOf(const absl::StatusOr<ops::TssaDims>& dims) {
  return std::string(dims.status().message());
}

TEST(CausalTssaShape, SaysWhatIsWrong) {
  EXPECT_TRUE(ops::CausalTssaShape({2, 7, 12}, {3, 1}, {3, 7, 1}).ok());
  EXPECT_THAT(MessageOf(ops::CausalTssaShape({2, 7, 12}, {3, 1}, {2, 7, 1})),
              HasSubstr("denom_bias must be [heads, block, 1] with 3 heads, not [2, 7, 1]"));
  EXPECT_THAT(MessageOf(ops::CausalTssaShape({2, 8, 12}, {3, 1}, {3, 7, 1})),
              HasSubstr("CausalTssa: positions 0 to 7 but denom_bias [3, 7, 1] has 7"));
  EXPECT_THAT(MessageOf(ops::CausalTssaShape({2, 1, 12}, {3, 1}, {3, 7, 1}, 7)),
              HasSubstr("positions 7 to 7 but denom_bias [3, 7, 1] has 7"));
  const Shape mask{2, 1, 12};
  EXPECT_THAT(MessageOf(ops::CausalTssaShape({2, 7, 12}, {3, 1}, {3, 7, 1}, 0, &mask)),
              HasSubstr("mask is [2, 1, 12] but must be [2, 7, 12]"));
}

TEST(CausalTssaDeathTest, AStateOfAnotherBatchIsRefused) {
  auto state = ops::CausalTssaState::Zeros(3, 2, 2);
  const Tensor w = Tensor::Zeros({1, 4}, DType::kFloat32);
  const Tensor temp = Tensor::Zeros({2, 1}, DType::kFloat32);
  const Tensor bias = Tensor::Zeros({2, 8, 1}, DType::kFloat32);
  EXPECT_DEATH(ops::CausalTssaStep(state, w, temp, bias, 0),
               "the state is for channels \\[3, 4\\].*the operands have \\[1, 4\\]");
}

Tensor Values(Shape shape, uint64_t seed, DType dtype = DType::kFloat32) {
  return Converted(RandomTensor(shape, seed), dtype);
}

struct Inputs {
  Inputs(int64_t batch, int64_t tokens, int64_t heads, int64_t head_dim,
         DType dtype = DType::kFloat32)
      : w(Values({batch, tokens, heads * head_dim}, 1, dtype)),
        temp(Values({heads, 1}, 2)),
        bias(Values({heads, tokens + 3, 1}, 3)) {}
  Tensor w, temp, bias, mask;
};

struct Gradients {
  std::vector<float> y, dw, dtemp, dbias;
  friend bool operator==(const Gradients&, const Gradients&) = default;
};

Gradients BothPasses(const Inputs& in, int passes = 1) {
  const Tensor w = Leaf(in.w), temp = Leaf(in.temp), bias = Leaf(in.bias);
  const Tensor dy = Converted(Values(w.shape(), 5, DType::kBFloat16), w.dtype());
  Gradients result;
  for (int pass = 0; pass < passes; ++pass) {
    Tape tape;
    const Tensor y = ops::CausalTssa(w, temp, bias, in.mask);
    tape.BackwardFrom(y, dy);
    result.y = y.ToHost();
  }
  result.dw = w.grad()->value().ToHost();
  result.dtemp = temp.grad()->value().ToHost();
  result.dbias = bias.grad()->value().ToHost();
  return result;
}

std::vector<float> RoundedToBFloat16(const std::vector<float>& x) {
  std::vector<float> y;
  for (float value : x) y.push_back(bfloat16(value));
  return y;
}

// Threads also set how many chunks take a pass together, which must not matter either.
TEST(CausalTssa, ThreadsDoNotChangeABit) {
  const Inputs in(3, 700, 12, 64);
  const int threads = ThreadCount();
  SetThreadCount(1);
  const Gradients alone = BothPasses(in);
  SetThreadCount(2);
  const Gradients two = BothPasses(in);
  SetThreadCount(5);
  const Gradients five = BothPasses(in);
  SetThreadCount(threads);
  EXPECT_EQ(alone, two);
  EXPECT_EQ(alone, five);
}

TEST(CausalTssa, LaterTokensDoNotChangeABitOfEarlierOnes) {
  const Inputs in(1, 100, 3, 8);
  std::vector<float> changed = in.w.ToHost();
  constexpr size_t kUnchanged = 67 * 24;
  for (size_t i = kUnchanged; i < changed.size(); ++i) changed[i] += 1;
  std::vector<float> a = ops::CausalTssa(in.w, in.temp, in.bias).ToHost();
  std::vector<float> b =
      ops::CausalTssa(Tensor::FromHost(in.w.shape(), changed), in.temp, in.bias).ToHost();
  EXPECT_NE(a, b);
  a.resize(kUnchanged);
  b.resize(kUnchanged);
  EXPECT_EQ(a, b);
}

TEST(CausalTssa, FirstTokenSeesOnlyItself) {
  const Inputs in(1, 40, 2, 4);
  std::vector<float> all = ops::CausalTssa(in.w, in.temp, in.bias).ToHost();
  all.resize(8);
  const Tensor first = in.w.View(0, {1, 1, 8});
  EXPECT_EQ(all, ops::CausalTssa(first, in.temp, in.bias).ToHost());
}

TEST(CausalTssa, BiasRowsBeyondTheTokensGetNoGradient) {
  const Inputs in(2, 5, 2, 3);
  const std::vector<float> dbias = BothPasses(in).dbias;
  for (size_t h = 0; h < 2; ++h) {
    for (size_t t = 5; t < 8; ++t) EXPECT_EQ(dbias[h * 8 + t], 0);
  }
}

TEST(CausalTssa, AZeroMaskSilencesItsChannel) {
  Inputs in(1, 3, 2, 2);
  const std::vector<float> plain = ops::CausalTssa(in.w, in.temp, in.bias).ToHost();
  in.mask = Tensor::FromHost({1, 3, 4}, std::vector<float>{1, 1, 1, 1, 1, 0, 2, 1, 1, 1, 1, 1});
  const std::vector<float> masked = ops::CausalTssa(in.w, in.temp, in.bias, in.mask).ToHost();
  for (size_t i = 0; i < plain.size(); ++i) {
    const float multiplier = i == 5 ? 0 : i == 6 ? 2 : 1;
    EXPECT_EQ(masked[i], multiplier * plain[i]) << i;
  }
}

// Statistics are float32 whatever w is: bfloat16 results are the float32 ones, rounded once.
TEST(CausalTssa, BFloat16RoundsOnlyResults) {
  const Inputs in(2, 75, 3, 20, DType::kBFloat16);
  Inputs wide = in;
  wide.w = Converted(in.w, DType::kFloat32);
  const Gradients rounded = BothPasses(in), exact = BothPasses(wide);
  EXPECT_EQ(rounded.y, RoundedToBFloat16(exact.y));
  EXPECT_EQ(rounded.dw, RoundedToBFloat16(exact.dw));
  EXPECT_EQ(rounded.dtemp, exact.dtemp);
  EXPECT_EQ(rounded.dbias, exact.dbias);
}

// Doubling is exact, and so is adding a value to itself.
TEST(CausalTssa, GradientsAddUp) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Inputs in(2, 75, 3, 20, dtype);
    Gradients once = BothPasses(in);
    const Gradients twice = BothPasses(in, /*passes=*/2);
    for (auto* values : {&once.dw, &once.dtemp, &once.dbias}) {
      for (float& value : *values) value *= 2;
    }
    EXPECT_EQ(twice.dw, once.dw);
    EXPECT_EQ(twice.dtemp, once.dtemp);
    EXPECT_EQ(twice.dbias, once.dbias);
  }
}

// 1 + 2⁻⁹ is lost in a bfloat16 sum, and 256 + 1 stays 256: the sums must not be bfloat16.
TEST(CausalTssa, BFloat16EnergyKeepsGrowing) {
  constexpr int64_t kTokens = 1024;
  const Tensor w = Converted(Tensor::FromHost({1, kTokens, 1}, std::vector<float>(kTokens, 1)),
                             DType::kBFloat16);
  const Tensor temp = Tensor::Zeros({1, 1}, DType::kFloat32);
  const Tensor bias = Tensor::Zeros({1, kTokens, 1}, DType::kFloat32);
  auto state = ops::CausalTssaState::Zeros(1, 1, 1);
  ops::CausalTssaPrefill(state, w, temp, bias);
  EXPECT_EQ(state.energy.Item(), kTokens);
  EXPECT_EQ(state.weighted_energy.Item(), kTokens);
  EXPECT_EQ(state.membership.Item(), kTokens);
}

// At t = 0 every share is exactly 1 whatever w is, so nothing flows back through it. What is left
// is −G Π g m plus the path through the second moment, which is linear in G.
TEST(CausalTssa, OneTokenHasNoGradientThroughItsShare) {
  const Tensor w = Leaf(Tensor::FromHost({1, 1, 2}, std::vector<float>{3e-4f, 2e-4f}));
  const Tensor temp = Leaf(Tensor::FromHost({2, 1}, std::vector<float>{100, -100}));
  const Tensor bias = Leaf(Tensor::Zeros({2, 1, 1}, DType::kFloat32));
  Tape tape;
  tape.BackwardFrom(ops::CausalTssa(w, temp, bias),
                    Tensor::FromHost({1, 1, 2}, std::vector<float>{1, 1}));
  // Π = (1, 0) to float precision and s = w²: dy/dw = −(1 − w²)/(1 + w²)² for head 0.
  EXPECT_FLOAT_EQ(w.grad()->value().ToHost()[0], -1 + 3 * 9e-8f);
  EXPECT_FLOAT_EQ(w.grad()->value().ToHost()[1], 0);
}

}  // namespace
}  // namespace tost
