// ClassAttention: its formula in primitive ops, gradients, independence of threads, messages.
#include "ops/class_attention.h"

#include <cmath>
#include <vector>

#include "autograd/base/parallel.h"
#include "autograd/gradcheck.h"
#include "autograd/tape.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/elementwise.h"
#include "ops/layout.h"
#include "ops/matmul.h"
#include "ops/softmax.h"

namespace tost::ops {
namespace {

using ::testing::HasSubstr;

Tensor ByPrimitives(const Tensor& qkv, int64_t heads) {
  const int64_t batch = qkv.shape()[0], tokens = qkv.shape()[1], width = qkv.shape()[2] / 3;
  const int64_t d = width / heads;
  auto part = [&](int64_t i, int64_t last) {  // [B, H, last, d]
    const Tensor columns = Slice(Slice(qkv, 2, i * width, (i + 1) * width), 1, 0, last);
    return Permute(Reshape(columns, {batch, last, heads, d}), {0, 2, 1, 3});
  };
  const Tensor scores =
      Matmul(part(0, 1), Transpose(part(1, tokens))) / std::sqrt(static_cast<double>(d));
  return Reshape(Matmul(Softmax(scores, -1), part(2, tokens)), {batch, width});
}

TEST(ClassAttention, EqualsItsFormulaInPrimitives) {
  const Tensor qkv = RandomTensor({3, 7, 3 * 12}, 1, -2, 2), dy = RandomTensor({3, 12}, 2);
  std::vector<std::vector<double>> results;
  for (const bool fused : {false, true}) {
    const Tensor x = Leaf(qkv);
    Tape tape;
    const Tensor y = fused ? ClassAttention(x, 4) : ByPrimitives(x, 4);
    tape.BackwardFrom(y, dy);
    results.push_back(y.ToHost<double>());
    const std::vector<double> dx = x.grad()->value().ToHost<double>();
    results.back().insert(results.back().end(), dx.begin(), dx.end());
  }
  ASSERT_EQ(results[0].size(), results[1].size());
  for (size_t i = 0; i < results[0].size(); ++i) EXPECT_NEAR(results[0][i], results[1][i], 1e-13);
}

TEST(ClassAttention, Gradients) {
  for (const Shape& qkv : {Shape{1, 1, 6}, Shape{2, 5, 24}, Shape{1, 33, 18}}) {
    for (const int64_t heads : {1, 2}) {
      const GradcheckReport report =
          Gradcheck([&](const std::vector<Tensor>& t) { return ClassAttention(t[0], heads); },
                    {RandomTensor(qkv, 1)});
      EXPECT_TRUE(report.passed()) << qkv << "\n" << report.Table();
    }
  }
}

TEST(ClassAttention, GradientsOfTwoUsesAddUp) {
  const GradcheckReport report = Gradcheck(
      [](const std::vector<Tensor>& t) {
        return ClassAttention(t[0], 2) * ClassAttention(t[0], 1);
      },
      {RandomTensor({2, 4, 12}, 1)});
  EXPECT_TRUE(report.passed()) << report.Table();
}

TEST(ClassAttention, BitsDoNotDependOnThreads) {
  const Tensor qkv = Converted(RandomTensor({5, 65, 3 * 64}, 1), DType::kFloat32);
  std::vector<std::vector<float>> results;
  const int before = ThreadCount();
  for (const int threads : {1, 2, 3}) {
    SetThreadCount(threads);
    const Tensor x = Leaf(qkv);
    Tape tape;
    const Tensor y = ClassAttention(x, 4);
    tape.BackwardFrom(y, Converted(RandomTensor(y.shape(), 3), DType::kFloat32));
    results.push_back(x.grad()->value().ToHost());
  }
  SetThreadCount(before);
  EXPECT_TRUE(results[0] == results[1] && results[1] == results[2]);
}

TEST(ClassAttention, Bf16IsCloseToTheFormula) {
  const Tensor qkv = Converted(RandomTensor({2, 20, 3 * 16}, 1), DType::kBFloat16);
  const std::vector<double> exact =
      ByPrimitives(Converted(qkv, DType::kFloat64), 2).ToHost<double>();
  const std::vector<double> actual = ClassAttention(qkv, 2).ToHost<double>();
  // One rounding of a mean of values below 1.
  for (size_t i = 0; i < exact.size(); ++i) EXPECT_NEAR(actual[i], exact[i], 1.0 / 512);
}

TEST(ClassAttention, ShapesThatDoNotFitAreNamed) {
  EXPECT_THAT(std::string(ClassAttentionShape({2, 5, 20}, 2).status().message()),
              HasSubstr("[2, 5, 20] is not [batch, tokens, 3 * width] with a width of 2 heads"));
}

}  // namespace
}  // namespace tost::ops
