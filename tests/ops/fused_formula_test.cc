// Every fused op other than TSSA (tssa_formula_test.cc) is its formula in primitive ops, in value
// and gradient, in double.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "autograd/gradcheck.h"
#include "autograd/tape.h"
#include "gtest/gtest.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/layer_norm.h"
#include "ops/layout.h"
#include "ops/linear.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/residual.h"
#include "ops/softmax.h"

namespace tost::ops {
namespace {

// Double arithmetic in another order, relative to the largest entry: some hundred roundings of
// 1e-16 in a value, some thousands in a gradient.
constexpr double kValueTolerance = 1e-12;
constexpr double kGradientTolerance = 1e-10;

using Inputs = std::vector<Tensor>;

void ExpectNear(const Tensor& actual, const Tensor& expected, double tolerance,
                const std::string& what) {
  ASSERT_EQ(actual.shape(), expected.shape()) << what;
  const std::vector<double> a = actual.ToHost<double>(), b = expected.ToHost<double>();
  double largest = 0, worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(b[i]));
    worst = std::max(worst, std::abs(a[i] - b[i]));
  }
  EXPECT_LE(worst, tolerance * largest) << what;
  EXPECT_GT(largest, 0) << what;
}

// Output and input gradients of Σ fn(x)·r.
Inputs Run(const TensorFunction& fn, const Inputs& inputs) {
  Inputs leaves, results;
  for (const Tensor& input : inputs) leaves.push_back(Leaf(input));
  Tape tape;
  results.push_back(fn(leaves));
  tape.BackwardFrom(results[0], RandomTensor(results[0].shape(), /*seed=*/77));
  for (const Tensor& leaf : leaves) results.push_back(leaf.grad()->value());
  return results;
}

void ExpectSame(const TensorFunction& fused, const TensorFunction& formula, const Inputs& inputs) {
  const Inputs actual = Run(fused, inputs), expected = Run(formula, inputs);
  ExpectNear(actual[0], expected[0], kValueTolerance, "value");
  for (size_t i = 1; i < actual.size(); ++i) {
    ExpectNear(actual[i], expected[i], kGradientTolerance, "gradient " + std::to_string(i - 1));
  }
}

Tensor Ids(Shape shape, int64_t count) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < shape.numel(); ++i) {
    ids.push_back(static_cast<int32_t>((i * i + 5 * i + 1) % count));
  }
  return Tensor::FromHost(shape, ids);
}

TEST(FusedFormula, Linear) {
  const Inputs inputs{RandomTensor({2, 5, 7}, 1), RandomTensor({11, 7}, 2), RandomTensor({11}, 3)};
  auto formula = [](const Inputs& x) { return Matmul(x[0], Transpose(x[1])) + x[2]; };
  ExpectSame([](const Inputs& x) { return Linear(x[0], x[1], x[2]); }, formula, inputs);
  ExpectSame([](const Inputs& x) { return LinearGelu(x[0], x[1], x[2]); },
             [&](const Inputs& x) { return Gelu(formula(x)); }, inputs);
}

TEST(FusedFormula, LayerNorm) {
  constexpr double kEpsilon = 1e-5;
  ExpectSame([](const Inputs& x) { return LayerNorm(x[0], x[1], x[2], kEpsilon); },
             [](const Inputs& x) {
               const Tensor centred = x[0] - Mean(x[0], {-1}, true);
               return centred * Rsqrt(Variance(x[0], {-1}, true) + kEpsilon) * x[1] + x[2];
             },
             {RandomTensor({3, 4, 13}, 1), RandomTensor({13}, 2), RandomTensor({13}, 3)});
}

TEST(FusedFormula, ScaledResidual) {
  ExpectSame([](const Inputs& x) { return ScaledResidual(x[0], x[1], x[2]); },
             [](const Inputs& x) { return x[0] + x[1] * x[2]; },
             {RandomTensor({3, 4, 13}, 1), RandomTensor({13}, 2), RandomTensor({3, 4, 13}, 3)});
}

TEST(FusedFormula, Embedding) {
  const Tensor ids = Ids({3, 5}, 9);
  ExpectSame([&](const Inputs& x) { return Embedding(ids, x[0], x[1], 2); },
             [&](const Inputs& x) {
               const Tensor rows = IndexSelect(x[0], 0, ids.Reshaped({15}));
               return Reshape(rows, {3, 5, 6}) + Slice(x[1], 0, 2, 7);
             },
             {RandomTensor({9, 6}, 1), RandomTensor({8, 6}, 2)});
}

// softmax(q kᵀ/√d) v with the whole [T, T] matrix.
Tensor PlainAttention(const Tensor& qkv, int64_t heads, bool causal) {
  const int64_t batch = qkv.shape()[0], tokens = qkv.shape()[1], width = qkv.shape()[2] / 3;
  auto part = [&](int64_t i) {
    const Tensor x = Slice(qkv, 2, i * width, (i + 1) * width);
    return Permute(Reshape(x, {batch, tokens, heads, width / heads}), {0, 2, 1, 3});
  };
  Tensor scores = Matmul(part(0), Transpose(part(1))) *
                  (1 / std::sqrt(static_cast<double>(width) / static_cast<double>(heads)));
  if (causal) {
    std::vector<double> mask;
    for (int64_t i = 0; i < tokens; ++i) {
      for (int64_t j = 0; j < tokens; ++j) mask.push_back(j <= i ? 0 : -1e9);
    }
    scores = scores + Tensor::FromHost({tokens, tokens}, mask);
  }
  const Tensor y = Matmul(Softmax(scores, -1), part(2));
  return Reshape(Permute(y, {0, 2, 1, 3}), {batch, tokens, width});
}

TEST(FusedFormula, Attention) {
  for (const bool causal : {false, true}) {
    for (const int64_t tokens : {1, 5, 63, 64, 65, 150}) {
      SCOPED_TRACE(testing::Message() << tokens << " tokens, causal " << causal);
      ExpectSame([&](const Inputs& x) { return Attention(x[0], {.heads = 3, .causal = causal}); },
                 [&](const Inputs& x) { return PlainAttention(x[0], 3, causal); },
                 {RandomTensor({2, tokens, 3 * 3 * 5}, 1, -2, 2)});
    }
  }
}

// −Σ log softmax(logits)[target].
Tensor PlainCrossEntropy(const Tensor& logits, const Tensor& targets) {
  const int64_t rows = logits.shape()[0];
  return -Sum(Gather(LogSoftmax(logits, -1), 1, targets.Reshaped({rows, 1})));
}

TEST(FusedFormula, CrossEntropy) {
  const Tensor targets = Ids({6}, 10);
  ExpectSame(
      [&](const Inputs& x) { return CrossEntropy(x[0], targets, {.reduction = Reduction::kSum}); },
      [&](const Inputs& x) { return PlainCrossEntropy(x[0], targets); },
      {RandomTensor({6, 10}, 1, -3, 3)});
}

TEST(FusedFormula, ProjectedCrossEntropy) {
  const Tensor targets = Ids({30}, 17);
  ExpectSame(
      [&](const Inputs& x) { return ProjectedCrossEntropy(x[0], x[1], targets); },
      [&](const Inputs& x) { return PlainCrossEntropy(Matmul(x[0], Transpose(x[1])), targets); },
      {RandomTensor({30, 8}, 1), RandomTensor({17, 8}, 2)});
}

}  // namespace
}  // namespace tost::ops
