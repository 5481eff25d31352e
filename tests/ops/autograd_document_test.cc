// The numbers of docs/autograd.md.
#include <vector>

#include "autograd/gradcheck.h"
#include "autograd/tape.h"
#include "gtest/gtest.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "ops/tssa.h"

namespace tost {
namespace {

// The document prints five decimals (six in its result).
constexpr double kFiveDecimals = 6e-6, kSixDecimals = 6e-7;

Tensor Doubles(Shape shape, const std::vector<double>& values) {
  return Tensor::FromHost(shape, values);
}

TEST(AutogradDocument, SquareSum) {
  const Tensor x = Leaf(Doubles({2}, {1, 2}));
  Tape tape;
  tape.Backward(ops::Sum(x * x));
  EXPECT_EQ(x.grad()->value().ToHost<double>(), (std::vector<double>{2, 4}));
}

TEST(AutogradDocument, OneCausalTssaByHand) {
  const Tensor w = Leaf(Doubles({1, 2, 2}, {1, 2, 2, 1}));
  const Tensor temp = Doubles({2, 1}, {1, 1}), bias = Tensor::Zeros({2, 2, 1}, DType::kFloat64);
  const std::vector<double> memberships =
      ops::CausalTssaMemberships(w, temp, bias).ToHost<double>();
  const std::vector<double> expected_memberships{0.5, 0.5, 0.64566, 0.35434};
  Tape tape;
  const Tensor y = ops::CausalTssa(w, temp, bias);
  const std::vector<double> expected_y{-0.25, -0.2, -0.34988, -0.09435};
  tape.BackwardFrom(y, Doubles({1, 2, 2}, {0, 0, 1, 0}));
  const std::vector<double> expected_dw{0.114489, -0.015871, 0.022896, 0.031741};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(memberships[i], expected_memberships[i], kFiveDecimals) << i;
    EXPECT_NEAR(y.ToHost<double>()[i], expected_y[i], kFiveDecimals) << i;
    EXPECT_NEAR(w.grad()->value().ToHost<double>()[i], expected_dw[i], kSixDecimals) << i;
  }
}

TEST(AutogradDocument, GradcheckTableShowsEveryEntry) {
  const GradcheckReport report =
      Gradcheck([](const std::vector<Tensor>& x) { return ops::CausalTssa(x[0], x[1], x[2]); },
                {RandomTensor({1, 3, 4}, 1), RandomTensor({2, 1}, 2), RandomTensor({2, 3, 1}, 3)});
  EXPECT_TRUE(report.passed()) << report.Table();
  EXPECT_EQ(report.entries.size(), 12u + 2u + 6u);
}

}  // namespace
}  // namespace tost
