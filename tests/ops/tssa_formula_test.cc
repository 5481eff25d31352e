// The fused operators are the formulas of tssa_formula.h, in value and gradient.
#include "tests/ops/tssa_formula.h"

#include <cmath>

#include "autograd/base/parallel.h"
#include "autograd/gradcheck.h"
#include "autograd/tape.h"
#include "gtest/gtest.h"
#include "ops/cpu/tssa_tile.h"
#include "ops/tssa.h"

namespace tost {
namespace {

// Double arithmetic in another order: a few hundred roundings of 1e-16 in a value, some thousands
// in a gradient.
constexpr double kValueTolerance = 1e-12;
constexpr double kGradientTolerance = 1e-10;

struct Case {
  int64_t batch, tokens, heads, head_dim;
};

constexpr int64_t kChunk = ops::cpu::kChunkTokens;

// One token, one head, odd widths, widths around the 8 lanes of a vector, tokens around a chunk.
const Case kSmall[] = {
    {1, 1, 1, 1},
    {2, 1, 3, 4},
    {2, 5, 1, 7},
    {3, 2, 4, 1},
    {2, 7, 3, 5},
    {1, kChunk - 1, 2, 8},
    {1, kChunk, 3, 9},
    {2, kChunk + 1, 2, 15},
    {1, 3 * kChunk, 5, 3},
    {1, 3 * kChunk - 1, 2, 17},
    {2, 4 * kChunk + 1, 3, 6},
};
// More chunks, or more sequences, than one wave holds on one thread.
const Case kSeveralWaves[] = {{1, 12 * kChunk + 5, 8, 64}, {11, kChunk + 3, 8, 64}};

std::string Name(const Case& c) { return Shape{c.batch, c.tokens, c.heads, c.head_dim}.ToString(); }

struct Outcome {
  std::vector<double> y;
  std::vector<std::vector<double>> gradients;
};

Outcome Run(const TensorFunction& fn, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> leaves;
  for (const Tensor& input : inputs) leaves.push_back(Leaf(input));
  Tape tape;
  const Tensor y = fn(leaves);
  tape.BackwardFrom(y, RandomTensor(y.shape(), /*seed=*/99));
  Outcome outcome{y.ToHost<double>(), {}};
  for (const Tensor& leaf : leaves)
    outcome.gradients.push_back(leaf.grad()->value().ToHost<double>());
  return outcome;
}

double Largest(const std::vector<double>& values) {
  double largest = 0;
  for (double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

void ExpectNear(const std::vector<double>& a, const std::vector<double>& b, double allowed) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], allowed) << "element " << i;
}

// Gradients are measured by the largest entry of all of them: that of temp vanishes for one head.
void ExpectSame(const TensorFunction& fused, const TensorFunction& formula,
                const std::vector<Tensor>& inputs) {
  const Outcome a = Run(fused, inputs), b = Run(formula, inputs);
  ExpectNear(a.y, b.y, kValueTolerance * Largest(b.y));
  double scale = 0;
  for (const auto& gradient : b.gradients) scale = std::max(scale, Largest(gradient));
  for (size_t i = 0; i < inputs.size(); ++i) {
    SCOPED_TRACE(testing::Message() << "gradient of input " << i);
    ExpectNear(a.gradients[i], b.gradients[i], kGradientTolerance * scale);
  }
}

Tensor KeepMask(Shape shape) {  // 0 or 1/0.75
  std::vector<double> values = RandomTensor(shape, /*seed=*/7).ToHost<double>();
  for (double& value : values) value = value < -0.5 ? 0 : 1 / 0.75;
  return Tensor::FromHost(shape, values);
}

void CheckTssa(const Case& c, const Tensor& w, const Tensor& mask,
               const ops::TssaOptions& options = {}) {
  SCOPED_TRACE(Name(c));
  ExpectSame([&](const auto& x) { return ops::Tssa(x[0], x[1], mask, options); },
             [&](const auto& x) { return formula::Tssa(x[0], x[1], mask, options); },
             {w, RandomTensor({c.heads, 1}, /*seed=*/2, 0.2, 2)});
}

void CheckCausal(const Case& c, const Tensor& w, const Tensor& mask) {
  SCOPED_TRACE(Name(c));
  const int64_t block = c.tokens + 3;  // rows beyond the tokens get gradient 0
  ExpectSame([&](const auto& x) { return ops::CausalTssa(x[0], x[1], x[2], mask); },
             [&](const auto& x) { return formula::CausalTssa(x[0], x[1], x[2], mask); },
             {w, RandomTensor({c.heads, 1}, /*seed=*/2, 0.2, 2),
              RandomTensor({c.heads, block, 1}, /*seed=*/3, -0.2, 0.2)});
}

Tensor Tokens(const Case& c, double size = 1) {
  return RandomTensor({c.batch, c.tokens, c.heads * c.head_dim}, /*seed=*/1, -size, size);
}

TEST(Tssa, EqualsTheFormula) {
  for (const Case& c : kSmall) CheckTssa(c, Tokens(c), {});
}

TEST(Tssa, EqualsTheFormulaWithDropout) {
  for (const Case& c : kSmall) {
    CheckTssa(c, Tokens(c), KeepMask({c.batch, 1, c.heads * c.head_dim}));
  }
}

TEST(Tssa, EqualsTheFormulaAtAllSizesOfValues) {
  for (double size : {1e-3, 30.0, 1e3}) CheckTssa(kSmall[4], Tokens(kSmall[4], size), {});
}

constexpr ops::TssaOptions kUnnormalized{.normalized = false};

TEST(UnnormalizedTssa, EqualsTheFormula) {
  for (const Case& c : kSmall) {
    CheckTssa(c, Tokens(c), {}, kUnnormalized);
    CheckTssa(c, Tokens(c), KeepMask({c.batch, 1, c.heads * c.head_dim}), kUnnormalized);
  }
}

// At 1e4 the logits reach 1e9 and memberships are 0 or 1 exactly.
TEST(UnnormalizedTssa, EqualsTheFormulaAtAllSizesOfValues) {
  for (double size : {1e-3, 30.0, 1e4}) {
    CheckTssa(kSmall[4], Tokens(kSmall[4], size), {}, kUnnormalized);
  }
}

TEST(UnnormalizedTssa, EqualsTheFormulaOverSeveralWaves) {
  const int threads = ThreadCount();
  SetThreadCount(1);
  for (const Case& c : kSeveralWaves) CheckTssa(c, Tokens(c), {}, kUnnormalized);
  SetThreadCount(threads);
}

TEST(CausalTssa, EqualsTheFormula) {
  for (const Case& c : kSmall) CheckCausal(c, Tokens(c), {});
}

TEST(CausalTssa, EqualsTheFormulaWithDropout) {
  for (const Case& c : kSmall) {
    CheckCausal(c, Tokens(c), KeepMask({c.batch, c.tokens, c.heads * c.head_dim}));
  }
}

TEST(CausalTssa, EqualsTheFormulaAtAllSizesOfValues) {
  for (double size : {1e-3, 30.0, 1e3}) CheckCausal(kSmall[4], Tokens(kSmall[4], size), {});
}

TEST(Tssa, EqualsTheFormulaOverSeveralWaves) {
  const int threads = ThreadCount();
  SetThreadCount(1);  // the fewer threads, the smaller the waves
  for (const Case& c : kSeveralWaves) CheckTssa(c, Tokens(c), {});
  SetThreadCount(threads);
}

TEST(CausalTssa, EqualsTheFormulaOverSeveralWaves) {
  const int threads = ThreadCount();
  SetThreadCount(1);
  for (const Case& c : kSeveralWaves) CheckCausal(c, Tokens(c), {});
  SetThreadCount(threads);
}

// Zero tokens at the start and a channel that is zero throughout: the energy is clamped there.
TEST(CausalTssa, EqualsTheFormulaWhereEnergyIsClamped) {
  const Case c{2, kChunk + 9, 2, 5};
  std::vector<double> w = Tokens(c).ToHost<double>();
  const int64_t width = c.heads * c.head_dim;
  for (int64_t i = 0; i < std::ssize(w); ++i) {
    const int64_t token = i / width % c.tokens, channel = i % width;
    if (token < 3 || channel == 4) w[static_cast<size_t>(i)] = 0;
    if (token == 3) w[static_cast<size_t>(i)] *= 1e-7;  // energy 1e-14: below the clamp, not 0
  }
  CheckCausal(c, Tensor::FromHost({c.batch, c.tokens, width}, w), {});
}

TEST(Tssa, EqualsTheFormulaForZeroTokensAndChannels) {
  const Case c{2, kChunk + 9, 2, 5};
  std::vector<double> w = Tokens(c).ToHost<double>();
  const int64_t width = c.heads * c.head_dim;
  for (int64_t i = 0; i < std::ssize(w); ++i) {
    if (i / width % c.tokens == 2 || i % width == 4) w[static_cast<size_t>(i)] = 0;
  }
  CheckTssa(c, Tensor::FromHost({c.batch, c.tokens, width}, w), {});
}

}  // namespace
}  // namespace tost
