// BatchNorm: the formula, running statistics, gradients, ranks that share statistics.
#include "ops/batch_norm.h"

#include <cmath>
#include <vector>

#include "autograd/base/parallel.h"
#include "autograd/gradcheck.h"
#include "autograd/tape.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"

namespace tost::ops {
namespace {

using ::testing::HasSubstr;

BatchNormState FreshState(int64_t channels, DType dtype = DType::kFloat64) {
  BatchNormState state{Tensor::Zeros({channels}, dtype), Tensor::Zeros({channels}, dtype)};
  for (int64_t c = 0; c < channels; ++c) {
    if (dtype == DType::kFloat64) state.running_variance.mutable_data<double>()[c] = 1;
    if (dtype == DType::kFloat32) state.running_variance.mutable_data<float>()[c] = 1;
  }
  return state;
}

// The formula in primitive ops.
Tensor ByPrimitives(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
  const Axes rows = {0, 1, 2};
  const Tensor mean = Mean(x, rows), variance = Variance(x, rows);
  return (x - mean) / Sqrt(variance + epsilon) * weight + bias;
}

TEST(BatchNorm, EqualsItsFormulaInPrimitives) {
  const Tensor x = RandomTensor({3, 5, 4, 7}, 1, -2, 5), dy = RandomTensor({3, 5, 4, 7}, 4);
  std::vector<std::vector<double>> results;
  for (const bool fused : {false, true}) {
    const Tensor input = Leaf(x), weight = Leaf(RandomTensor({7}, 2)),
                 bias = Leaf(RandomTensor({7}, 3));
    BatchNormState state = FreshState(7);
    Tape tape;
    const Tensor y =
        fused ? BatchNorm(input, weight, bias, {}, state) : ByPrimitives(input, weight, bias, 1e-5);
    tape.BackwardFrom(y, dy);
    results.push_back(y.ToHost<double>());
    for (const Tensor& leaf : {input, weight, bias}) {
      const std::vector<double> gradient = leaf.grad()->value().ToHost<double>();
      results.back().insert(results.back().end(), gradient.begin(), gradient.end());
    }
  }
  ASSERT_EQ(results[0].size(), results[1].size());
  for (size_t i = 0; i < results[0].size(); ++i) EXPECT_NEAR(results[0][i], results[1][i], 1e-12);
}

TEST(BatchNorm, Gradients) {
  for (const Shape& x : {Shape{2, 1}, Shape{9, 3}, Shape{2, 3, 2, 5}, Shape{70, 33}}) {
    const Shape channels{x[-1]};
    const GradcheckReport training = Gradcheck(
        [&](const std::vector<Tensor>& t) {
          BatchNormState state = FreshState(channels[0]);
          return BatchNorm(t[0], t[1], t[2], {.epsilon = 1e-3}, state);
        },
        {RandomTensor(x, 1), RandomTensor(channels, 2), RandomTensor(channels, 3)});
    EXPECT_TRUE(training.passed()) << x << "\n" << training.Table();
    const GradcheckReport evaluation = Gradcheck(
        [&](const std::vector<Tensor>& t) {
          return BatchNormEvaluation(t[0], t[1], t[2], 1e-3, FreshState(channels[0]));
        },
        {RandomTensor(x, 1), RandomTensor(channels, 2), RandomTensor(channels, 3)});
    EXPECT_TRUE(evaluation.passed()) << x << "\n" << evaluation.Table();
  }
}

TEST(BatchNorm, RunningStatisticsAreUnbiasedAndUsedInEvaluation) {
  const Tensor x = Tensor::FromHost<double>({4, 1}, std::vector<double>{1, 2, 3, 6});
  const Tensor one = Tensor::FromHost<double>({1}, std::vector<double>{1});
  const Tensor zero = Tensor::Zeros({1}, DType::kFloat64);
  BatchNormState state = FreshState(1);
  BatchNorm(x, one, zero, {.momentum = 0.25}, state);
  EXPECT_DOUBLE_EQ(state.running_mean.Item(), 0.25 * 3);
  // Squared deviations 4 + 1 + 0 + 9 over n − 1 = 3.
  EXPECT_DOUBLE_EQ(state.running_variance.Item(), 0.75 + 0.25 * 14.0 / 3);
  const Tensor y = BatchNormEvaluation(x, one, zero, 0, state);
  EXPECT_NEAR(y.ToHost<double>()[3], (6 - 0.75) / std::sqrt(0.75 + 3.5 / 3), 1e-15);
}

// Two ranks with half of the rows each, against one with all. The ranks meet in rounds: as in an
// all-reduce, a sum is known when both have given theirs, so each rank is run again until the other
// has.
TEST(BatchNorm, TwoRanksEqualOne) {
  const Tensor x = RandomTensor({6, 3}, 1, -1, 4), dy = RandomTensor({6, 3}, 4);
  const Tensor weight = RandomTensor({3}, 2), bias = RandomTensor({3}, 3);
  std::vector<std::vector<std::vector<double>>> given(2);  // [rank][call]
  auto run = [&](int rank, const Tensor& rows, const Tensor& gradient) {
    size_t call = 0;
    std::vector<std::vector<double>> mine;
    const auto sum = [&](Tensor& sums) {
      const std::vector<double> own = sums.ToHost<double>();
      mine.push_back(own);
      const auto& other = given[static_cast<size_t>(1 - rank)];
      for (size_t i = 0; i < own.size(); ++i) {
        sums.mutable_data<double>()[i] = own[i] + (call < other.size() ? other[call][i] : own[i]);
      }
      ++call;
    };
    const Tensor input = Leaf(rows);
    BatchNormState state = FreshState(3);
    Tape tape;
    const Tensor y =
        BatchNorm(input, weight, bias, {.sum = {.over_ranks = sum, .ranks = 2}}, state);
    tape.BackwardFrom(y, gradient);
    given[static_cast<size_t>(rank)] = mine;
    std::vector<double> result = y.ToHost<double>();
    const std::vector<double> dx = input.grad()->value().ToHost<double>();
    result.insert(result.end(), dx.begin(), dx.end());
    const std::vector<double> variance = state.running_variance.ToHost<double>();
    result.insert(result.end(), variance.begin(), variance.end());
    return result;
  };
  std::vector<double> first, second;
  // Mean, variance and the gradient's sums each need the one before: three rounds settle them.
  for (int round = 0; round < 4; ++round) {
    first = run(0, x.Slice(0, 3), dy.Slice(0, 3));
    second = run(1, x.Slice(3, 3), dy.Slice(3, 3));
  }
  BatchNormState state = FreshState(3);
  const Tensor input = Leaf(x);
  Tape tape;
  const Tensor y = BatchNorm(input, weight, bias, {}, state);
  tape.BackwardFrom(y, dy);
  const std::vector<double> whole = y.ToHost<double>(), dx = input.grad()->value().ToHost<double>();
  const std::vector<double> variance = state.running_variance.ToHost<double>();
  for (size_t i = 0; i < 9; ++i) {
    EXPECT_NEAR(first[i], whole[i], 1e-12);
    EXPECT_NEAR(first[9 + i], dx[i], 1e-12);
    EXPECT_NEAR(second[i], whole[9 + i], 1e-12);
    EXPECT_NEAR(second[9 + i], dx[9 + i], 1e-12);
  }
  for (size_t c = 0; c < 3; ++c) EXPECT_NEAR(second[18 + c], variance[c], 1e-12);
}

TEST(BatchNorm, BitsDoNotDependOnThreads) {
  const Tensor x = Converted(RandomTensor({5000, 24}, 1), DType::kFloat32);
  std::vector<std::vector<float>> results;
  const int before = ThreadCount();
  for (const int threads : {1, 2, 3}) {
    SetThreadCount(threads);
    const Tensor input = Leaf(x), weight = Leaf(Converted(RandomTensor({24}, 2), DType::kFloat32));
    BatchNormState state = FreshState(24, DType::kFloat32);
    Tape tape;
    const Tensor y = BatchNorm(input, weight, Tensor::Zeros({24}, DType::kFloat32), {}, state);
    tape.BackwardFrom(y, Converted(RandomTensor(y.shape(), 3), DType::kFloat32));
    results.push_back(input.grad()->value().ToHost());
    const std::vector<float> dw = weight.grad()->value().ToHost();
    results.back().insert(results.back().end(), dw.begin(), dw.end());
  }
  SetThreadCount(before);
  EXPECT_TRUE(results[0] == results[1] && results[1] == results[2]);
}

TEST(BatchNorm, Bf16IsRoundedOnce) {
  const Tensor x = RandomTensor({50, 6}, 1, -2, 2), weight = RandomTensor({6}, 2),
               bias = RandomTensor({6}, 3);
  const Tensor rounded = Converted(x, DType::kBFloat16);
  BatchNormState state = FreshState(6), state32 = FreshState(6, DType::kFloat32);
  const std::vector<double> exact =
      BatchNorm(Converted(rounded, DType::kFloat64), weight, bias, {}, state).ToHost<double>();
  const std::vector<double> actual = BatchNorm(rounded, Converted(weight, DType::kFloat32),
                                               Converted(bias, DType::kFloat32), {}, state32)
                                         .ToHost<double>();
  // Half an ulp of bfloat16, 2⁻⁹, of values below 4.
  for (size_t i = 0; i < exact.size(); ++i) EXPECT_NEAR(actual[i], exact[i], 4.0 / 512);
}

TEST(BatchNorm, ShapesThatDoNotFitAreNamed) {
  EXPECT_THAT(std::string(BatchNormShape({4}, {4}, {4}).status().message()), HasSubstr("no rows"));
  EXPECT_THAT(std::string(BatchNormShape({2, 4}, {3}, {3}).status().message()),
              HasSubstr("x has 4 channels but weight is [3]"));
}

}  // namespace
}  // namespace tost::ops
