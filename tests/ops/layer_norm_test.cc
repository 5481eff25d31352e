// LayerNorm: the formula in loops, hard rows, dtypes, messages, threads.
#include "ops/layer_norm.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "autograd/base/parallel.h"
#include "autograd/gradcheck.h"
#include "autograd/tape.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tost::ops {
namespace {

constexpr double kEpsilon = 1e-5;
// A few float32 roundings of results of size 4.
constexpr double kFloatTolerance = 2e-6;
// One bfloat16 rounding (2⁻⁹ of the value).
constexpr double kBf16Tolerance = 1.0 / 256;

// The formula, in double.
std::vector<double> LayerNormByLoops(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const std::vector<double> in = x.ToHost<double>(), w = weight.ToHost<double>();
  const std::vector<double> b =
      bias.defined() ? bias.ToHost<double>() : std::vector<double>(w.size(), 0.0);
  const size_t columns = w.size();
  std::vector<double> y(in.size());
  for (size_t row = 0; row < in.size(); row += columns) {
    double mean = 0, variance = 0;
    for (size_t c = 0; c < columns; ++c) mean += in[row + c] / static_cast<double>(columns);
    for (size_t c = 0; c < columns; ++c) {
      variance += (in[row + c] - mean) * (in[row + c] - mean) / static_cast<double>(columns);
    }
    const double rstd = 1 / std::sqrt(variance + kEpsilon);
    for (size_t c = 0; c < columns; ++c) y[row + c] = (in[row + c] - mean) * rstd * w[c] + b[c];
  }
  return y;
}

TEST(LayerNorm, EqualsTheFormula) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
    for (const int64_t columns : {1, 3, 64, 385}) {
      const Tensor x = Converted(RandomTensor({3, 17, columns}, 1, -2, 3), dtype);
      const Tensor weight = Converted(RandomTensor({columns}, 2), AccumulateDType(dtype));
      const Tensor bias = Converted(RandomTensor({columns}, 3), AccumulateDType(dtype));
      const std::vector<double> expected = LayerNormByLoops(x, weight, bias);
      const std::vector<double> y = LayerNorm(x, weight, bias, kEpsilon).ToHost<double>();
      const double tolerance = dtype == DType::kBFloat16 ? kBf16Tolerance : kFloatTolerance;
      for (size_t i = 0; i < y.size(); ++i) {
        ASSERT_NEAR(y[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i])));
      }
    }
  }
}

TEST(LayerNorm, ARowOfEqualValuesGivesTheBiasExactly) {
  // 1000.1 is no float and the sum of 385 of them is rounded, yet nothing of that may be amplified.
  const Tensor x = Tensor::FromHost<float>({1, 385}, std::vector<float>(385, 1000.1f));
  const Tensor weight = Tensor::FromHost<float>({385}, std::vector<float>(385, 2.0f));
  const Tensor bias = Converted(RandomTensor({385}, 3), DType::kFloat32);
  EXPECT_EQ(LayerNorm(x, weight, bias, kEpsilon).ToHost(), bias.ToHost());
}

TEST(LayerNorm, ALargeOffsetDoesNotSpoilTheVariance) {
  std::vector<float> values = Converted(RandomTensor({4, 384}, 1), DType::kFloat32).ToHost();
  for (float& value : values) value = 4096.0f + value;  // rounded here, exact from here on
  const Tensor x = Tensor::FromHost<float>({4, 384}, values);
  const Tensor ones = Tensor::FromHost<float>({384}, std::vector<float>(384, 1.0f));
  const std::vector<double> expected = LayerNormByLoops(x, ones, {});
  const std::vector<double> y = LayerNorm(x, ones, {}, kEpsilon).ToHost<double>();
  // Half a unit of the mean near 4096 is 2.4e-4, times rstd ≈ 1.7.
  for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], expected[i], 5e-4);
}

TEST(LayerNorm, Bf16GradientsMatchFloat32) {
  const Tensor x16 = Leaf(Converted(RandomTensor({50, 24}, 1), DType::kBFloat16));
  const Tensor x32 = Leaf(Converted(x16, DType::kFloat32));
  const Tensor dy16 = Converted(RandomTensor({50, 24}, 2), DType::kBFloat16);
  std::vector<std::vector<double>> dx, dw;
  for (const Tensor& x : {x16, x32}) {
    const Tensor weight = Leaf(Converted(RandomTensor({24}, 3), DType::kFloat32));
    Tape tape;
    tape.BackwardFrom(LayerNorm(x, weight, {}, kEpsilon), Converted(dy16, x.dtype()));
    dx.push_back(x.grad()->value().ToHost<double>());
    dw.push_back(weight.grad()->value().ToHost<double>());
  }
  // Both sum in float32 from equal values: 50 terms of size 5, in two orders.
  for (size_t c = 0; c < 24; ++c) ASSERT_NEAR(dw[0][c], dw[1][c], 50 * 5 * 6e-8);
  for (size_t i = 0; i < dx[0].size(); ++i) {
    ASSERT_NEAR(dx[0][i], dx[1][i], kBf16Tolerance * std::max(0.01, std::abs(dx[1][i])));
  }
}

TEST(LayerNorm, SameBitsWithAnyNumberOfThreads) {
  auto run = [](int threads) {
    const int before = ThreadCount();
    SetThreadCount(threads);
    const Tensor x = Leaf(Converted(RandomTensor({3, 500, 96}, 1), DType::kFloat32));
    const Tensor weight = Leaf(Converted(RandomTensor({96}, 2), DType::kFloat32));
    const Tensor bias = Leaf(Converted(RandomTensor({96}, 3), DType::kFloat32));
    Tape tape;
    const Tensor y = LayerNorm(x, weight, bias, kEpsilon);
    tape.BackwardFrom(y, Converted(RandomTensor(y.shape(), 4), DType::kFloat32));
    SetThreadCount(before);
    return std::vector<std::vector<float>>{y.ToHost(), x.grad()->value().ToHost(),
                                           weight.grad()->value().ToHost(),
                                           bias.grad()->value().ToHost()};
  };
  const auto one = run(1);
  EXPECT_EQ(run(2), one);
  EXPECT_EQ(run(5), one);
}

TEST(LayerNormShape, NamesTheRuleAndTheValues) {
  EXPECT_EQ(*LayerNormShape({2, 3, 8}, {8}, Shape{8}), (Shape{2, 3, 8}));
  EXPECT_EQ(LayerNormShape({2, 8}, {7}).status().message(),
            "LayerNorm: x has 8 columns but weight is [7] (x [2, 8])");
  EXPECT_EQ(LayerNormShape({2, 8}, {8}, Shape{1, 8}).status().message(),
            "LayerNorm: x has 8 columns but bias is [1, 8] (x [2, 8])");
  EXPECT_FALSE(LayerNormShape({}, {1}).ok());
}

}  // namespace
}  // namespace tost::ops
