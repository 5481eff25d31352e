// Gradients of the layers' ops against central differences in double.
#include <vector>

#include "autograd/gradcheck.h"
#include "gtest/gtest.h"
#include "ops/dropout.h"
#include "ops/embedding.h"
#include "ops/layer_norm.h"
#include "ops/linear.h"
#include "ops/residual.h"

namespace tost::ops {
namespace {

constexpr RandomKey kKey{.seed = 42, .step = 7, .draw = 3, .first_row = 0};
constexpr float kRate = 0.3f;

TEST(Linear, WithBias) {
  for (const Shape& x : {Shape{1, 1}, Shape{5}, Shape{2, 3, 7}, Shape{33, 17}}) {
    const int64_t in = x[-1];
    const GradcheckReport report =
        Gradcheck([](const std::vector<Tensor>& t) { return Linear(t[0], t[1], t[2]); },
                  {RandomTensor(x, 1), RandomTensor({11, in}, 2), RandomTensor({11}, 3)});
    EXPECT_TRUE(report.passed()) << x << "\n" << report.Table();
  }
}

TEST(Linear, WithoutBias) {
  const GradcheckReport report =
      Gradcheck([](const std::vector<Tensor>& t) { return Linear(t[0], t[1]); },
                {RandomTensor({2, 3, 5}, 1), RandomTensor({1, 5}, 2)});
  EXPECT_TRUE(report.passed()) << report.Table();
}

TEST(Linear, Gelu) {
  const GradcheckReport with_bias =
      Gradcheck([](const std::vector<Tensor>& t) { return LinearGelu(t[0], t[1], t[2]); },
                {RandomTensor({3, 5}, 1, -3, 3), RandomTensor({7, 5}, 2), RandomTensor({7}, 3)});
  EXPECT_TRUE(with_bias.passed()) << with_bias.Table();
  const GradcheckReport without =
      Gradcheck([](const std::vector<Tensor>& t) { return LinearGelu(t[0], t[1]); },
                {RandomTensor({1, 1, 4}, 1, -3, 3), RandomTensor({3, 4}, 2)});
  EXPECT_TRUE(without.passed()) << without.Table();
}

Tensor Normalise(const std::vector<Tensor>& t) {
  return LayerNorm(t[0], t[1], t.size() > 2 ? t[2] : Tensor(), /*epsilon=*/1e-5);
}

TEST(LayerNorm, WithAndWithoutBias) {
  for (const Shape& x : {Shape{1, 2}, Shape{5}, Shape{2, 3, 7}, Shape{70, 33}}) {
    const Shape vector{x[-1]};
    const GradcheckReport with_bias = Gradcheck(
        Normalise, {RandomTensor(x, 1), RandomTensor(vector, 2), RandomTensor(vector, 3)});
    EXPECT_TRUE(with_bias.passed()) << x << "\n" << with_bias.Table();
    const GradcheckReport without =
        Gradcheck(Normalise, {RandomTensor(x, 1), RandomTensor(vector, 2)});
    EXPECT_TRUE(without.passed()) << x << "\n" << without.Table();
  }
}

TEST(ScaledResidual, WithGamma) {
  for (const Shape& x : {Shape{1, 1}, Shape{4}, Shape{2, 3, 7}, Shape{90, 5}}) {
    const GradcheckReport report =
        Gradcheck([](const std::vector<Tensor>& t) { return ScaledResidual(t[0], t[1], t[2]); },
                  {RandomTensor(x, 1), RandomTensor({x[-1]}, 2), RandomTensor(x, 3)});
    EXPECT_TRUE(report.passed()) << x << "\n" << report.Table();
  }
}

TEST(ScaledResidual, WithoutGamma) {
  const GradcheckReport report =
      Gradcheck([](const std::vector<Tensor>& t) { return ScaledResidual(t[0], {}, t[1]); },
                {RandomTensor({2, 3, 5}, 1), RandomTensor({2, 3, 5}, 2)});
  EXPECT_TRUE(report.passed()) << report.Table();
}

TEST(ScaledResidual, TheSameTensorTwice) {
  const GradcheckReport plain =
      Gradcheck([](const std::vector<Tensor>& t) { return ScaledResidual(t[0], {}, t[0]); },
                {RandomTensor({3, 4}, 1)});
  EXPECT_TRUE(plain.passed()) << plain.Table();
  const GradcheckReport chained = Gradcheck(
      [](const std::vector<Tensor>& t) {
        const Tensor inner = ScaledResidual(t[0], t[1], t[0]);
        return ScaledResidual(inner, t[1], inner);
      },
      {RandomTensor({3, 4}, 1), RandomTensor({4}, 2)});
  EXPECT_TRUE(chained.passed()) << chained.Table();
}

TEST(Embedding, TableAndPositions) {
  const Tensor ids = Tensor::FromHost<int32_t>({2, 3}, std::vector<int32_t>{4, 0, 4, 1, 4, 0});
  const GradcheckReport both =
      Gradcheck([&](const std::vector<Tensor>& t) { return Embedding(ids, t[0], t[1], 2); },
                {RandomTensor({6, 5}, 1), RandomTensor({7, 5}, 2)});
  EXPECT_TRUE(both.passed()) << both.Table();
  const GradcheckReport table =
      Gradcheck([&](const std::vector<Tensor>& t) { return Embedding(ids, t[0]); },
                {RandomTensor({5, 1}, 1)});
  EXPECT_TRUE(table.passed()) << table.Table();
}

TEST(Dropout, Elements) {
  for (const Shape& x : {Shape{1}, Shape{3, 5}, Shape{2, 3, 90}}) {
    const GradcheckReport report =
        Gradcheck([](const std::vector<Tensor>& t) { return Dropout(t[0], kRate, kKey); },
                  {RandomTensor(x, 1)});
    EXPECT_TRUE(report.passed()) << x << "\n" << report.Table();
  }
}

TEST(Dropout, Paths) {
  const GradcheckReport report =
      Gradcheck([](const std::vector<Tensor>& t) { return DropPath(t[0], kRate, kKey); },
                {RandomTensor({7, 2, 3}, 1)});
  EXPECT_TRUE(report.passed()) << report.Table();
}

}  // namespace
}  // namespace tost::ops
