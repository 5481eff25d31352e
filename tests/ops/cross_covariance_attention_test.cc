// CrossCovarianceAttention: its formula in primitive ops, gradients, threads, messages.
#include "ops/cross_covariance_attention.h"

#include <vector>

#include "autograd/base/parallel.h"
#include "autograd/gradcheck.h"
#include "autograd/tape.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/elementwise.h"
#include "ops/layout.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/softmax.h"

namespace tost::ops {
namespace {

using ::testing::HasSubstr;

Tensor ByPrimitives(const Tensor& qkv, const Tensor& temperature) {
  const int64_t batch = qkv.shape()[0], tokens = qkv.shape()[1], width = qkv.shape()[2] / 3;
  const int64_t heads = temperature.shape()[0], d = width / heads;
  auto part = [&](int64_t i) {  // [B, H, N, d]
    const Tensor columns = Slice(qkv, 2, i * width, (i + 1) * width);
    return Permute(Reshape(columns, {batch, tokens, heads, d}), {0, 2, 1, 3});
  };
  auto unit = [](const Tensor& x) { return x / Sqrt(Sum(x * x, {2}, /*keep_dims=*/true)); };
  const Tensor scores = Matmul(Transpose(unit(part(0))), unit(part(1))) * temperature;
  const Tensor y = Matmul(part(2), Transpose(Softmax(scores, -1)));
  return Reshape(Permute(y, {0, 2, 1, 3}), {batch, tokens, width});
}

std::vector<double> Append(std::vector<double> a, const std::vector<double>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(CrossCovarianceAttention, EqualsItsFormulaInPrimitives) {
  const Tensor dy = RandomTensor({3, 7, 12}, 2);
  std::vector<std::vector<double>> results;
  for (const bool fused : {false, true}) {
    const Tensor x = Leaf(RandomTensor({3, 7, 3 * 12}, 1, -2, 2));
    const Tensor temperature = Leaf(RandomTensor({4, 1, 1}, 3, 0.5, 4));
    Tape tape;
    const Tensor y =
        fused ? CrossCovarianceAttention(x, temperature) : ByPrimitives(x, temperature);
    tape.BackwardFrom(y, dy);
    results.push_back(Append(Append(y.ToHost<double>(), x.grad()->value().ToHost<double>()),
                             temperature.grad()->value().ToHost<double>()));
  }
  ASSERT_EQ(results[0].size(), results[1].size());
  for (size_t i = 0; i < results[0].size(); ++i) EXPECT_NEAR(results[0][i], results[1][i], 1e-13);
}

TEST(CrossCovarianceAttention, Gradients) {
  for (const Shape& qkv : {Shape{1, 1, 6}, Shape{2, 5, 24}, Shape{1, 33, 18}}) {
    for (const int64_t heads : {1, 2}) {
      const GradcheckReport report = Gradcheck(
          [](const std::vector<Tensor>& t) { return CrossCovarianceAttention(t[0], t[1]); },
          {RandomTensor(qkv, 1), RandomTensor({heads, 1, 1}, 2, 0.5, 3)});
      EXPECT_TRUE(report.passed()) << qkv << "\n" << report.Table();
    }
  }
}

TEST(CrossCovarianceAttention, GradientsOfTwoUsesAddUp) {
  const GradcheckReport report = Gradcheck(
      [](const std::vector<Tensor>& t) {
        return CrossCovarianceAttention(t[0], t[1]) * CrossCovarianceAttention(t[0], t[1]);
      },
      {RandomTensor({2, 4, 12}, 1), RandomTensor({2, 1, 1}, 2, 0.5, 3)});
  EXPECT_TRUE(report.passed()) << report.Table();
}

// A channel that is zero in all tokens has norm 1e-12, not 0: everything stays finite.
TEST(CrossCovarianceAttention, ZeroChannelsStayFinite) {
  Tensor qkv = RandomTensor({1, 5, 3 * 4}, 1);
  for (int64_t n = 0; n < 5; ++n) qkv.mutable_data<double>()[n * 12 + 1] = 0;
  const Tensor x = Leaf(qkv);
  Tape tape;
  const Tensor y =
      CrossCovarianceAttention(x, Tensor::FromHost<double>({2, 1, 1}, std::vector<double>{1, 1}));
  tape.BackwardFrom(y, RandomTensor(y.shape(), 2));
  for (const double value : y.ToHost<double>()) EXPECT_TRUE(std::isfinite(value));
  for (const double value : x.grad()->value().ToHost<double>()) EXPECT_TRUE(std::isfinite(value));
}

TEST(CrossCovarianceAttention, BitsDoNotDependOnThreads) {
  std::vector<std::vector<float>> results;
  const int before = ThreadCount();
  for (const int threads : {1, 2, 3}) {
    SetThreadCount(threads);
    const Tensor x = Leaf(Converted(RandomTensor({5, 65, 3 * 64}, 1), DType::kFloat32));
    const Tensor temperature = Leaf(Converted(RandomTensor({4, 1, 1}, 2), DType::kFloat32));
    Tape tape;
    const Tensor y = CrossCovarianceAttention(x, temperature);
    tape.BackwardFrom(y, Converted(RandomTensor(y.shape(), 3), DType::kFloat32));
    results.push_back(x.grad()->value().ToHost());
    results.back().push_back(temperature.grad()->value().ToHost()[2]);
  }
  SetThreadCount(before);
  EXPECT_TRUE(results[0] == results[1] && results[1] == results[2]);
}

TEST(CrossCovarianceAttention, Bf16IsCloseToTheFormula) {
  const Tensor qkv = Converted(RandomTensor({2, 20, 3 * 16}, 1), DType::kBFloat16);
  const Tensor temperature = RandomTensor({2, 1, 1}, 2, 0.5, 3);
  const std::vector<double> exact =
      ByPrimitives(Converted(qkv, DType::kFloat64), temperature).ToHost<double>();
  const std::vector<double> actual =
      CrossCovarianceAttention(qkv, Converted(temperature, DType::kFloat32)).ToHost<double>();
  // The probabilities and the result are rounded once each, 2⁻⁹ of values below 1.
  for (size_t i = 0; i < exact.size(); ++i) EXPECT_NEAR(actual[i], exact[i], 2.0 / 512);
}

TEST(CrossCovarianceAttention, ShapesThatDoNotFitAreNamed) {
  auto message = [](const Shape& qkv, const Shape& temperature) {
    return std::string(CrossCovarianceShape(qkv, temperature).status().message());
  };
  EXPECT_THAT(message({2, 5, 20}, {2, 1, 1}), HasSubstr("[2, 5, 20] is not [batch, tokens"));
  EXPECT_THAT(message({2, 5, 24}, {2, 3, 1}), HasSubstr("temperature [2, 3, 1]"));
}

}  // namespace
}  // namespace tost::ops
