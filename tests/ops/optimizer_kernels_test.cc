#include "ops/optimizer_kernels.h"

#include <cmath>
#include <limits>

#include "autograd/base/parallel.h"
#include "autograd/gradcheck.h"
#include "gtest/gtest.h"

namespace tost::ops {
namespace {

Tensor Floats(int64_t count, uint64_t seed) {
  return Converted(RandomTensor({count}, seed), DType::kFloat32);
}

double Squares(const Tensor& x) {
  Tensor sum = Tensor::Empty({}, DType::kFloat64);
  SquaredNorm(x, /*add=*/false, sum);
  return sum.Item();
}

// An update whose gradient has this norm, after as many as are given.
Tensor UpdateOf(double norm, const UpdateRule& rule, int64_t updates_before = 0) {
  Tensor update = NewUpdateScalars(Device::Cpu(), updates_before);
  BeginUpdate(rule, Tensor::Scalar(norm * norm, DType::kFloat64), update);
  return update;
}

TEST(SquaredNorm, IsTheSumOfSquares) {
  const Tensor x = RandomTensor({200001}, 1);  // several ranges and a tail
  double expected = 0;
  for (double value : x.ToHost<double>()) expected += value * value;
  EXPECT_NEAR(Squares(x), expected, 1e-10 * expected);
  // Every float is a double exactly; only their rounding to float differs.
  EXPECT_NEAR(Squares(Converted(x, DType::kFloat32)), expected, 1e-7 * expected);
  Tensor sum = Tensor::Scalar(2, DType::kFloat64);
  SquaredNorm(x, /*add=*/true, sum);
  EXPECT_EQ(sum.Item(), 2 + Squares(x));
}

TEST(SquaredNorm, SameBitsOnAnyNumberOfThreads) {
  const Tensor x = Floats(300007, 2);
  const int threads = ThreadCount();
  SetThreadCount(1);
  const double one = Squares(x);
  SetThreadCount(4);
  EXPECT_EQ(Squares(x), one);
  SetThreadCount(threads);
}

TEST(SquaredNorm, IsNotFiniteWhenOneElementIsNot) {
  for (float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Tensor x = Floats(70000, 3);
    x.mutable_data<float>()[69999] = bad;
    EXPECT_FALSE(std::isfinite(Squares(x)));
  }
}

TEST(BeginUpdate, ClipsAndCounts) {
  Tensor update = NewUpdateScalars(Device::Cpu(), /*updates=*/6);
  BeginUpdate({.clip_norm = 2, .beta1 = 0.5, .beta2 = 0.25}, Tensor::Scalar(64, DType::kFloat64),
              update);
  const UpdateScalars scalars = ReadUpdateScalars(update);
  EXPECT_EQ(scalars.gradient_norm, 8);
  EXPECT_EQ(scalars.finite, 1);
  EXPECT_EQ(scalars.clip_factor, 2 / (8 + 1e-6));
  EXPECT_EQ(scalars.updates, 7);
  EXPECT_EQ(scalars.correction1, 1 - std::pow(0.5, 7));
  EXPECT_EQ(scalars.correction2, 1 - std::pow(0.25, 7));
  // Below the norm, and without one.
  EXPECT_EQ(ReadUpdateScalars(UpdateOf(1, {.clip_norm = 2})).clip_factor, 1);
  EXPECT_EQ(ReadUpdateScalars(UpdateOf(8, {.clip_norm = 0})).clip_factor, 1);
}

TEST(BeginUpdate, ANormThatIsNotFiniteDoesNotCount) {
  for (double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    const UpdateScalars scalars = ReadUpdateScalars(UpdateOf(bad, {.clip_norm = 1}, 3));
    EXPECT_EQ(scalars.finite, 0);
    EXPECT_FALSE(std::isfinite(scalars.gradient_norm));
    EXPECT_EQ(scalars.updates, 3);
  }
}

TEST(OptimizerKernels, AnUpdateThatIsNotFiniteChangesNothing) {
  const Tensor bad = UpdateOf(std::numeric_limits<double>::quiet_NaN(), {});
  const Tensor gradient = Floats(5, 1);
  Tensor value = Floats(5, 2), first = Floats(5, 3), second = Floats(5, 4);
  Tensor compute = Tensor::Zeros({5}, DType::kBFloat16);
  AdamW({}, bad, gradient, value, first, second, compute);
  Sgd({}, bad, gradient, value, first, compute);
  ExponentialMovingAverage(0.5, bad, gradient, second);
  EXPECT_EQ(value.ToHost(), Floats(5, 2).ToHost());
  EXPECT_EQ(first.ToHost(), Floats(5, 3).ToHost());
  EXPECT_EQ(second.ToHost(), Floats(5, 4).ToHost());
  EXPECT_EQ(compute.ToHost(), std::vector<float>(5, 0.0f));
}

TEST(AdamW, EqualsTheFormula) {
  const int64_t count = 70001;
  Tensor value = RandomTensor({count}, 1), first = Tensor::Zeros({count}, DType::kFloat64);
  Tensor second = Tensor::Zeros({count}, DType::kFloat64), none;
  std::vector<double> p = value.ToHost<double>(), m(p.size(), 0.0), v(p.size(), 0.0);
  const AdamWStep options{
      .learning_rate = 0.01, .beta1 = 0.8, .beta2 = 0.9, .epsilon = 1e-6, .weight_decay = 0.3};
  for (int64_t step = 1; step <= 3; ++step) {
    const Tensor gradient = RandomTensor({count}, static_cast<uint64_t>(10 + step));
    // Of norm 4 − 10⁻⁶, clipped to 2.
    const Tensor update =
        UpdateOf(4 - 1e-6, {.clip_norm = 2, .beta1 = 0.8, .beta2 = 0.9}, step - 1);
    AdamW(options, update, gradient, value, first, second, none);
    const std::vector<double> g = gradient.ToHost<double>();
    for (size_t i = 0; i < p.size(); ++i) {
      const double clipped = 0.5 * g[i];
      p[i] *= 1 - 0.01 * 0.3;
      m[i] = 0.8 * m[i] + 0.2 * clipped;
      v[i] = 0.9 * v[i] + 0.1 * clipped * clipped;
      const double t = static_cast<double>(step);
      const double root = std::sqrt(v[i]) / std::sqrt(1 - std::pow(0.9, t));
      p[i] -= 0.01 / (1 - std::pow(0.8, t)) * m[i] / (root + 1e-6);
    }
  }
  const std::vector<double> actual = value.ToHost<double>();
  for (size_t i = 0; i < p.size(); ++i) ASSERT_NEAR(actual[i], p[i], 1e-14) << i;
}

TEST(AdamW, WritesTheBFloat16Copy) {
  const int64_t count = 70001;
  Tensor value = Floats(count, 1), first = Tensor::Zeros({count}, DType::kFloat32);
  Tensor second = Tensor::Zeros({count}, DType::kFloat32);
  Tensor compute = Tensor::Zeros({count}, DType::kBFloat16);
  AdamW({}, UpdateOf(1, {.beta1 = 0.9, .beta2 = 0.999}), Floats(count, 2), value, first, second,
        compute);
  EXPECT_EQ(compute.ToHost(), Converted(value, DType::kBFloat16).ToHost());
}

TEST(Sgd, FirstStepDoesNotReadTheMomentum) {
  Tensor value = Tensor::FromHost<float>({2}, std::vector<float>{1, 2});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Tensor momentum = Tensor::FromHost<float>({2}, std::vector<float>{nan, nan});
  const Tensor gradient = Tensor::FromHost<float>({2}, std::vector<float>{4, -4});
  Tensor none;
  const SgdStep options{.learning_rate = 0.25, .momentum = 0.5};
  Sgd(options, UpdateOf(1, {}), gradient, value, momentum, none);
  EXPECT_EQ(value.ToHost(), (std::vector<float>{0, 3}));
  Sgd(options, UpdateOf(1, {}, 1), gradient, value, momentum, none);  // b = ±6
  EXPECT_EQ(value.ToHost(), (std::vector<float>{-1.5f, 4.5f}));
}

TEST(Sgd, DecayJoinsTheClippedGradientAndTheCopyFollows) {
  Tensor value = Tensor::FromHost<float>({1}, std::vector<float>{2});
  Tensor momentum = Tensor::Zeros({1}, DType::kFloat32);
  Tensor compute = Tensor::Zeros({1}, DType::kBFloat16);
  const Tensor gradient = Tensor::FromHost<float>({1}, std::vector<float>{8});
  // Of norm 8 − 10⁻⁶, clipped to 2: b = 0.25 · 8 + 1 · 2.
  Sgd({.learning_rate = 0.25, .momentum = 0.5, .weight_decay = 1},
      UpdateOf(8 - 1e-6, {.clip_norm = 2}), gradient, value, momentum, compute);
  EXPECT_EQ(value.ToHost(), std::vector<float>{1});
  EXPECT_EQ(compute.ToHost(), std::vector<float>{1});
}

TEST(ExponentialMovingAverage, MovesByItsRest) {
  const Tensor value = Tensor::FromHost<float>({2}, std::vector<float>{8, -8});
  Tensor average = Tensor::FromHost<float>({2}, std::vector<float>{0, 8});
  ExponentialMovingAverage(0.75, {}, value, average);
  EXPECT_EQ(average.ToHost(), (std::vector<float>{2, 4}));
}

TEST(OptimizerKernelsDeathTest, SizesMustAgree) {
  Tensor four = Floats(4, 1), other = Floats(4, 1), none;
  const Tensor update = NewUpdateScalars(Device::Cpu());
  EXPECT_DEATH(AdamW({}, update, Floats(5, 2), four, other, other, none), "value and gradient");
  EXPECT_DEATH(AdamW({}, four, Floats(4, 2), four, other, other, none), "AdamW: the update is");
  EXPECT_DEATH(ExponentialMovingAverage(0.5, {}, Floats(5, 2), four), "ExponentialMovingAverage");
}

}  // namespace
}  // namespace tost::ops
