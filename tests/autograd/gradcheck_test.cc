#include "autograd/gradcheck.h"

#include <vector>

#include "autograd/tape.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/autograd/tiny_ops.h"

namespace tost {
namespace {

using ::testing::HasSubstr;
using tiny::Plus;
using tiny::Scaled;
using tiny::Times;

using Inputs = std::vector<Tensor>;

Inputs TwoVectors() { return {RandomTensor({3}, 1), RandomTensor({3}, 2)}; }

TEST(Gradcheck, ARightGradientPasses) {
  const GradcheckReport report = Gradcheck(
      [](const Inputs& x) { return Plus(Times(x[0], x[1]), Times(x[0], x[0])); }, TwoVectors());
  EXPECT_TRUE(report.passed()) << report.Table();
  EXPECT_EQ(report.entries.size(), 6u);
}

TEST(Gradcheck, AWrongFactorFails) {
  const GradcheckReport report =
      Gradcheck([](const Inputs& x) { return Scaled(x[0], 2, 2.001); }, {RandomTensor({3}, 1)});
  EXPECT_FALSE(report.passed());
  EXPECT_NEAR(report.worst, 0.001, 0.001);  // relative to max(1, the largest gradient)
}

TEST(Gradcheck, AForgottenGradientFails) {
  auto forgetful = [](const Inputs& x) {
    const Tensor y = Times(x[0].Detached(), x[0].Detached());
    Tape* tape = Tape::Current();
    return tape == nullptr ? y : tape->Record("forgetful", {x[0].grad()}, y, [](Tensor) {});
  };
  EXPECT_FALSE(Gradcheck(forgetful, {RandomTensor({3}, 1, 0.5, 1)}).passed());
}

// A rule that overwrites instead of adding is right until an input is used twice.
TEST(Gradcheck, ARuleThatIgnoresAddFails) {
  auto overwriting = [](const Inputs& x) {
    Tensor y = Tensor::Empty(x[0].shape(), DType::kFloat64);
    tiny::Write(y, false, [&](int64_t i) { return 3 * tiny::At(x[0], i); });
    Tape* tape = Tape::Current();
    if (tape == nullptr) return y;
    return tape->Record("overwriting", {x[0].grad()}, y,
                        [input = SavedShape(x[0])](const Tensor& dy) {
                          input.Gradient([&](Tensor& dx, bool) {
                            tiny::Write(dx, false, [&](int64_t i) { return 3 * tiny::At(dy, i); });
                          });
                        });
  };
  EXPECT_FALSE(Gradcheck(overwriting, {RandomTensor({3}, 1)}).passed());
}

// Gradients +1 and -1 too large: their sum is right, each entry is wrong.
TEST(Gradcheck, ErrorsThatCancelInTheSumAreSeen) {
  auto swapped = [](const Inputs& x) {
    Tensor y = x[0].Detached();
    Tape* tape = Tape::Current();
    if (tape == nullptr) return y;
    return tape->Record("swapped", {x[0].grad()}, y, [input = SavedShape(x[0])](const Tensor& dy) {
      input.Gradient([&](Tensor& dx, bool add) {
        tiny::Write(dx, add, [&](int64_t i) { return tiny::At(dy, 1 - i); });
      });
    });
  };
  EXPECT_FALSE(Gradcheck(swapped, {RandomTensor({2}, 1)}).passed());
}

TEST(Gradcheck, NanIsWrong) {
  const GradcheckReport report =
      Gradcheck([](const Inputs& x) { return Scaled(x[0], 2, NAN); }, {RandomTensor({2}, 1)});
  EXPECT_FALSE(report.passed());
}

TEST(Gradcheck, AnInputWithoutInfluenceHasAZeroGradient) {
  const GradcheckReport report =
      Gradcheck([](const Inputs& x) { return Scaled(x[0], 2); }, TwoVectors());
  EXPECT_TRUE(report.passed()) << report.Table();
  EXPECT_EQ(report.entries.back().analytic, 0);
}

TEST(Gradcheck, TheTableShowsEveryEntryAndTheVerdict) {
  const std::string table =
      Gradcheck([](const Inputs& x) { return Scaled(x[0], 2); }, {RandomTensor({2}, 1)}).Table();
  EXPECT_THAT(table, HasSubstr("input element        numeric       analytic     difference\n"));
  EXPECT_THAT(table, HasSubstr("\n    0       1 "));
  EXPECT_THAT(table, HasSubstr("worst relative difference "));
  EXPECT_THAT(table, HasSubstr("(allowed 1e-07)\n"));
}

TEST(GradcheckDeathTest, WantsDoubles) {
  EXPECT_DEATH(
      Gradcheck([](const Inputs& x) { return x[0]; }, {Tensor::Zeros({1}, DType::kFloat32)}),
      "inputs must be float64");
}

TEST(RandomTensor, IsAFunctionOfItsSeedWithinBounds) {
  const Tensor x = RandomTensor({100}, 7, -2, 3);
  EXPECT_EQ(x.ToHost<double>(), RandomTensor({100}, 7, -2, 3).ToHost<double>());
  EXPECT_NE(x.ToHost<double>(), RandomTensor({100}, 8, -2, 3).ToHost<double>());
  EXPECT_THAT(x.ToHost<double>(),
              testing::Each(testing::AllOf(testing::Ge(-2.0), testing::Lt(3.0))));
}

}  // namespace
}  // namespace tost
