#include "ops/matmul.h"

#include <vector>

#include "autograd/base/parallel.h"
#include "autograd/gradcheck.h"
#include "autograd/tape.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/elementwise.h"
#include "ops/layout.h"
#include "ops/reduce.h"

namespace tost::ops {
namespace {

using testing::ElementsAre;

TEST(Matmul, MultipliesMatrices) {
  const Tensor a = Tensor::FromHost({2, 2}, std::vector<double>{1, 2, 3, 4});
  const Tensor b = Tensor::FromHost({2, 3}, std::vector<double>{1, 0, 2, 0, 1, 3});
  EXPECT_THAT(Matmul(a, b).ToHost<double>(), ElementsAre(1, 2, 8, 3, 4, 18));
}

// Σ_k a[…, m, k, 1] b[…, 1, k, n], in elementwise ops.
Tensor Formula(const Tensor& a, const Tensor& b) {
  const Tensor columns = Reshape(a, a.shape().Appended(1));
  std::vector<int64_t> extents(b.shape().extents().begin(), b.shape().extents().end());
  extents.insert(extents.end() - 2, 1);
  return Sum(columns * Reshape(b, Shape(extents)), {-2});
}

TEST(Matmul, AgreesWithTheFormulaOverBroadcastBatches) {
  const std::vector<std::pair<Shape, Shape>> operands{
      {{2, 3}, {3, 4}},          {{5, 2, 3}, {3, 4}},          {{2, 3}, {5, 3, 4}},
      {{2, 1, 7, 3}, {3, 3, 4}}, {{2, 3, 7, 5}, {2, 3, 5, 1}}, {{4, 1, 1, 2, 3}, {1, 3, 1, 3, 2}}};
  for (const auto& [a_shape, b_shape] : operands) {
    for (DType dtype : {DType::kFloat64, DType::kFloat32}) {
      const Tensor a = Converted(RandomTensor(a_shape, 1), dtype);
      const Tensor b = Converted(RandomTensor(b_shape, 2), dtype);
      const Tensor y = Matmul(a, b), expected = Formula(a, b);
      ASSERT_EQ(y.shape(), expected.shape());
      // At most seven products below 1, summed in either order in float.
      constexpr double kTolerance = 1e-6;
      EXPECT_LT(Max(Abs(y - expected)).Item(), kTolerance) << a_shape << " " << b_shape;
    }
  }
}

TEST(Matmul, ErrorsNameTheRule) {
  EXPECT_EQ(MatmulShape({2, 3}, {4, 5}).status().message(),
            "Matmul: a has 3 columns but b has 4 rows (a [2, 3], b [4, 5])");
  EXPECT_EQ(MatmulShape({3}, {3, 5}).status().message(),
            "Matmul: both operands need at least two axes (a [3], b [3, 5])");
  EXPECT_EQ(MatmulShape({2, 4, 3}, {5, 3, 1}).status().message(),
            "Matmul: the batch extents do not broadcast (a [2, 4, 3], b [5, 3, 1])");
  EXPECT_EQ(*MatmulShape({2, 1, 4, 3}, {5, 3, 1}), (Shape{2, 5, 4, 1}));
  EXPECT_DEATH(Matmul(RandomTensor({1, 1}, 1), Tensor::Zeros({1, 1}, DType::kFloat32)),
               "Matmul: dtypes differ: float64 and float32");
}

TEST(Matmul, BFloat16RoundsTheResultOnly) {
  const Tensor a = Tensor::FromHost({1, 1024}, std::vector<bfloat16>(1024, bfloat16(1.0f)));
  EXPECT_EQ(Matmul(a, Reshape(a, {1024, 1})).Item(), 1024);
}

TEST(Matmul, GradientOfARepeatedBFloat16OperandIsSummedInFloat) {
  const int64_t batch = 512;
  auto ones = [](const Shape& shape) {
    return Tensor::FromHost(
        shape, std::vector<bfloat16>(static_cast<size_t>(shape.numel()), bfloat16(1.0f)));
  };
  const Tensor a = Leaf(ones({1, 1})), b = Leaf(ones({1, 1}));
  Tape tape;
  tape.BackwardFrom(Matmul(a, ones({batch, 1, 1})) + Matmul(ones({batch, 1, 1}), b),
                    ones({batch, 1, 1}));
  EXPECT_EQ(a.grad()->value().Item(), 512);
  EXPECT_EQ(b.grad()->value().Item(), 512);
}

TEST(Matmul, BitsDoNotDependOnTheNumberOfThreads) {
  auto run = [&](int threads) {
    const int before = ThreadCount();
    SetThreadCount(threads);
    const Tensor a = Leaf(Converted(RandomTensor({6, 70, 90}, 1), DType::kFloat32));
    const Tensor b = Leaf(Converted(RandomTensor({90, 50}, 2), DType::kFloat32));
    const Tensor c = Leaf(Converted(RandomTensor({6, 50, 30}, 2), DType::kFloat32));
    Tape tape;
    const Tensor y = Matmul(Matmul(a, b), c);
    tape.Backward(Sum(y * y));
    SetThreadCount(before);
    return std::vector{y.ToHost(), a.grad()->value().ToHost(), b.grad()->value().ToHost(),
                       c.grad()->value().ToHost()};
  };
  const auto one = run(1);
  EXPECT_EQ(run(2), one);
  EXPECT_EQ(run(5), one);
}

}  // namespace
}  // namespace tost::ops
