// Ista: its formula in primitive ops, gradients, independence of threads, messages.
#include "ops/ista.h"

#include <vector>

#include "autograd/base/parallel.h"
#include "autograd/gradcheck.h"
#include "autograd/tape.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/elementwise.h"
#include "ops/layout.h"
#include "ops/matmul.h"

namespace tost::ops {
namespace {

using ::testing::HasSubstr;

Tensor ByPrimitives(const Tensor& z, const Tensor& d, const IstaOptions& options) {
  const Tensor residual = z - Matmul(z, Transpose(d));
  return Relu(z + Matmul(residual, d) * options.step - options.step * options.sparsity);
}

TEST(Ista, EqualsItsFormulaInPrimitives) {
  const IstaOptions options{.step = 0.3, .sparsity = 0.2};
  const Tensor dy = RandomTensor({3, 5, 7}, 3);
  std::vector<std::vector<double>> results;
  for (const bool fused : {false, true}) {
    const Tensor z = Leaf(RandomTensor({3, 5, 7}, 1)), d = Leaf(RandomTensor({7, 7}, 2));
    Tape tape;
    const Tensor y = fused ? Ista(z, d, options) : ByPrimitives(z, d, options);
    tape.BackwardFrom(y, dy);
    results.push_back(y.ToHost<double>());
    for (const Tensor& leaf : {z, d}) {
      const std::vector<double> gradient = leaf.grad()->value().ToHost<double>();
      results.back().insert(results.back().end(), gradient.begin(), gradient.end());
    }
  }
  ASSERT_EQ(results[0].size(), results[1].size());
  for (size_t i = 0; i < results[0].size(); ++i) EXPECT_NEAR(results[0][i], results[1][i], 1e-13);
}

TEST(Ista, Gradients) {
  for (const Shape& z : {Shape{1, 1}, Shape{2, 3, 5}, Shape{40, 9}}) {
    const GradcheckReport report =
        Gradcheck([](const std::vector<Tensor>& t) { return Ista(t[0], t[1]); },
                  {RandomTensor(z, 1), RandomTensor({z[-1], z[-1]}, 2)});
    EXPECT_TRUE(report.passed()) << z << "\n" << report.Table();
  }
  const GradcheckReport twice =
      Gradcheck([](const std::vector<Tensor>& t) { return Ista(Ista(t[0], t[1]), t[1]) * t[0]; },
                {RandomTensor({6, 5}, 1), RandomTensor({5, 5}, 2)});
  EXPECT_TRUE(twice.passed()) << twice.Table();
}

TEST(Ista, Bf16DictionaryGradientIsFloat32InTheMasterCell) {
  const Tensor z = Converted(RandomTensor({40, 6}, 1), DType::kBFloat16);
  const Tensor master = Leaf(Converted(RandomTensor({6, 6}, 2), DType::kFloat32));
  Tape tape;
  const Tensor y = Ista(z, Converted(master, DType::kBFloat16).WithGrad(master.grad()));
  tape.BackwardFrom(y, Converted(RandomTensor(y.shape(), 3), DType::kBFloat16));
  EXPECT_EQ(master.grad()->value().dtype(), DType::kFloat32);
}

TEST(Ista, BitsDoNotDependOnThreads) {
  std::vector<std::vector<float>> results;
  const int before = ThreadCount();
  for (const int threads : {1, 2, 3}) {
    SetThreadCount(threads);
    const Tensor z = Leaf(Converted(RandomTensor({700, 48}, 1), DType::kFloat32));
    const Tensor d = Leaf(Converted(RandomTensor({48, 48}, 2), DType::kFloat32));
    Tape tape;
    const Tensor y = Ista(z, d);
    tape.BackwardFrom(y, Converted(RandomTensor(y.shape(), 3), DType::kFloat32));
    results.push_back(z.grad()->value().ToHost());
    const std::vector<float> dd = d.grad()->value().ToHost();
    results.back().insert(results.back().end(), dd.begin(), dd.end());
  }
  SetThreadCount(before);
  EXPECT_TRUE(results[0] == results[1] && results[1] == results[2]);
}

TEST(Ista, ShapesThatDoNotFitAreNamed) {
  EXPECT_THAT(std::string(IstaShape({2, 5}, {5, 4}).message()),
              HasSubstr("the dictionary [5, 4] is not a square of z's width (z [2, 5])"));
}

}  // namespace
}  // namespace tost::ops
