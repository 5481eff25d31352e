// Cross entropy: gradients, the formula in loops, the fused projection, what is ignored and
// refused.
#include "ops/loss.h"

#include <cmath>
#include <limits>

#include "autograd/base/parallel.h"
#include "autograd/gradcheck.h"
#include "autograd/tape.h"
#include "gtest/gtest.h"
#include "ops/linear.h"

namespace tost::ops {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// Float rounding of logits and sums below 10 in magnitude.
constexpr double kFloatTolerance = 1e-5;

Tensor Ids(Shape shape, std::vector<int32_t> ids) { return Tensor::FromHost(shape, ids); }

double FormulaOfRow(const double* logits, size_t classes, size_t target, double smoothing) {
  double sum = 0, mean = 0;
  for (size_t j = 0; j < classes; ++j) sum += std::exp(logits[j]);
  for (size_t j = 0; j < classes; ++j) mean += logits[j] / static_cast<double>(classes);
  return std::log(sum) - (1 - smoothing) * logits[target] - smoothing * mean;
}

const CrossEntropyOptions kOptions[] = {
    {},
    {.reduction = Reduction::kSum},
    {.label_smoothing = 0.1, .reduction = Reduction::kSum},
    {.ignored_target = 3, .label_smoothing = 0.25, .reduction = Reduction::kMean},
};

TEST(CrossEntropy, EqualsTheFormula) {
  const Tensor logits = RandomTensor({2, 3, 7}, 1, -3, 3);
  const std::vector<int32_t> ids = {3, 0, 6, -1, 3, 1};
  for (CrossEntropyOptions options : kOptions) {
    std::vector<int32_t> targets = ids;
    if (options.ignored_target != -1) targets[3] = 2;
    const std::vector<double> x = logits.ToHost<double>();
    double sum = 0, count = 0;
    for (size_t r = 0; r < 6; ++r) {
      if (targets[r] == options.ignored_target) continue;
      sum += FormulaOfRow(&x[7 * r], 7, static_cast<size_t>(targets[r]), options.label_smoothing);
      ++count;
    }
    const double expected = options.reduction == Reduction::kMean ? sum / count : sum;
    const Tensor t = Ids({2, 3}, targets);
    EXPECT_NEAR(CrossEntropy(logits, t, options).Item(), expected, 1e-13);
    const Tensor single = CrossEntropy(Converted(logits, DType::kFloat32), t, options);
    EXPECT_EQ(single.dtype(), DType::kFloat32);
    EXPECT_NEAR(single.Item(), expected, kFloatTolerance);
  }
}

TEST(SoftCrossEntropy, OfSmoothedIdsEqualsLabelSmoothing) {
  const Tensor logits = RandomTensor({4, 5}, 8);
  std::vector<double> p(20, 0.1 / 5);
  const std::vector<int32_t> ids = {2, 0, 4, 1};
  for (size_t r = 0; r < 4; ++r) p[5 * r + static_cast<size_t>(ids[r])] += 0.9;
  const double hard =
      CrossEntropy(logits, Ids({4}, ids), {.label_smoothing = 0.1, .reduction = Reduction::kSum})
          .Item();
  EXPECT_NEAR(SoftCrossEntropy(logits, Tensor::FromHost<double>({4, 5}, p), Reduction::kSum).Item(),
              hard, 1e-13);
}

struct LossAndGradients {
  std::vector<double> loss, dx, dw;
  friend bool operator==(const LossAndGradients&, const LossAndGradients&) = default;
};

LossAndGradients Projected(const Tensor& x, const Tensor& w, const Tensor& targets, bool fused) {
  const Tensor leaf_x = Leaf(x), leaf_w = Leaf(w);
  Tape tape;
  const Tensor loss =
      fused ? ProjectedCrossEntropy(leaf_x, leaf_w, targets)
            : CrossEntropy(Linear(leaf_x, leaf_w), targets, {.reduction = Reduction::kSum});
  tape.Backward(loss, 0.5);
  return {loss.ToHost<double>(), leaf_x.grad()->value().ToHost<double>(),
          leaf_w.grad()->value().ToHost<double>()};
}

void ExpectNear(const std::vector<double>& actual, const std::vector<double>& expected,
                double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], expected[i], tolerance) << i;
}

TEST(ProjectedCrossEntropy, EqualsLinearThenCrossEntropy) {
  // 32 MiB hold 13 rows of this vocabulary's logits: 40 rows take several chunks, the last shorter.
  const int64_t vocabulary = 600000, rows = 40;
  std::vector<int32_t> ids(static_cast<size_t>(rows));
  for (size_t r = 0; r < ids.size(); ++r) ids[r] = r % 5 == 0 ? -1 : static_cast<int32_t>(777 * r);
  const Tensor x = Converted(RandomTensor({2, rows / 2, 3}, 1), DType::kFloat32);
  const Tensor w = Converted(RandomTensor({vocabulary, 3}, 2), DType::kFloat32);
  const Tensor targets = Ids({2, rows / 2}, ids);
  const LossAndGradients plain = Projected(x, w, targets, false);
  DeviceRuntime& cpu = RuntimeOf(Device::Cpu());
  const int64_t before = cpu.Memory().live_bytes;
  cpu.ResetPeakMemory();
  const LossAndGradients fused = Projected(x, w, targets, true);
  // One chunk of logits, and dw twice: as saved and as the leaf's gradient.
  EXPECT_LT(cpu.Memory().peak_bytes - before, (32 << 20) + 2 * w.numel() * 4 + (1 << 20));
  ExpectNear(fused.loss, plain.loss, 1e-6 * plain.loss[0]);
  // Sums of 600,000 terms below 1 in another order: a random walk of √600000 float roundings.
  ExpectNear(fused.dx, plain.dx, 5e-5);
  ExpectNear(fused.dw, plain.dw, kFloatTolerance);
  // Without a tape the loss is the same, bit for bit.
  EXPECT_EQ(ProjectedCrossEntropy(x, w, targets).ToHost<double>(), fused.loss);
}

TEST(ProjectedCrossEntropy, SameBitsOnAnyNumberOfThreads) {
  const Tensor x = Converted(RandomTensor({70, 16}, 1), DType::kFloat32);
  const Tensor w = Converted(RandomTensor({900, 16}, 2), DType::kFloat32);
  const Tensor targets = Ids({70}, std::vector<int32_t>(70, 899));
  const int threads = ThreadCount();
  SetThreadCount(1);
  const LossAndGradients one = Projected(x, w, targets, true);
  SetThreadCount(4);
  EXPECT_EQ(Projected(x, w, targets, true), one);
  SetThreadCount(threads);
}

TEST(ProjectedCrossEntropy, BFloat16ActivationsMeetAFloat32Gradient) {
  const Tensor x = Converted(RandomTensor({6, 8}, 1), DType::kBFloat16);
  const Tensor w = Converted(RandomTensor({10, 8}, 2), DType::kBFloat16);
  const Tensor targets = Ids({6}, {1, 2, 9, 0, -1, 5});
  const LossAndGradients exact =
      Projected(Converted(x, DType::kFloat64), Converted(w, DType::kFloat64), targets, true);
  // A parameter's bfloat16 copy shares the cell of its float32 master.
  const Tensor master = Leaf(Converted(w, DType::kFloat32));
  const Tensor leaf_x = Leaf(x);
  Tape tape;
  const Tensor loss = ProjectedCrossEntropy(leaf_x, w.WithGrad(master.grad()), targets);
  EXPECT_EQ(loss.dtype(), DType::kFloat32);
  EXPECT_NEAR(loss.Item(), exact.loss[0], kFloatTolerance);
  tape.Backward(loss, 0.5);
  EXPECT_EQ(master.grad()->value().dtype(), DType::kFloat32);
  // dlogits is rounded to bfloat16, relative 2⁻⁸; six of them add up in dw, ten in dx.
  ExpectNear(master.grad()->value().ToHost<double>(), exact.dw, 6.0 / 256);
  ExpectNear(leaf_x.grad()->value().ToHost<double>(), exact.dx, 10.0 / 256);
}

TEST(CrossEntropy, IgnoredRowsGetNoGradientAndDoNotCount) {
  const Tensor logits = Leaf(Converted(RandomTensor({2, 3}, 1), DType::kFloat32));
  Tape tape;
  const Tensor loss = CrossEntropy(logits, Ids({2}, {-1, -1}), {.reduction = Reduction::kMean});
  EXPECT_EQ(loss.Item(), 0);
  tape.Backward(loss);
  EXPECT_EQ(logits.grad()->value().ToHost(), std::vector<float>(6, 0.0f));
}

TEST(CrossEntropy, LogitsOfAnySizeGiveFiniteLosses) {
  const Tensor logits = Leaf(Tensor::FromHost<float>(
      {3, 3}, std::vector<float>{1e4f, 0, -1e4f, -1e4f, -1e4f, -1e4f, 3e38f, 1, -kInfinity}));
  Tape tape;
  const Tensor loss = CrossEntropy(logits, Ids({3}, {2, 1, 0}), {.reduction = Reduction::kSum});
  EXPECT_FLOAT_EQ(static_cast<float>(loss.Item()), 2e4f + std::log(3.0f));
  tape.Backward(loss);
  for (float g : logits.grad()->value().ToHost()) EXPECT_TRUE(std::isfinite(g));
}

TEST(CrossEntropy, LargeLogitsKeepTheirDifferences) {
  // Beside 10⁴ a float has steps of 10⁻³; the differences are exact.
  const Tensor logits = Tensor::FromHost<float>({1, 2}, std::vector<float>{10000, 9999});
  EXPECT_NEAR(CrossEntropy(logits, Ids({1}, {0})).Item(), std::log1p(std::exp(-1.0)), 1e-7);
  EXPECT_NEAR(CrossEntropy(logits, Ids({1}, {0}), {.label_smoothing = 0.5}).Item(),
              std::log1p(std::exp(-1.0)) + 0.25, 1e-7);
}

TEST(CrossEntropy, ErrorsNameTheRule) {
  EXPECT_EQ(CrossEntropyShape({2, 3, 5}, {2, 4}).status().message(),
            "CrossEntropy: logits [2, 3, 5] want one target per row, got [2, 4]");
  EXPECT_EQ(ProjectedCrossEntropyShape({2, 3, 5}, {9, 4}, {2, 3}).status().message(),
            "ProjectedCrossEntropy: x [2, 3, 5] does not fit w [9, 4]");
  EXPECT_EQ(ProjectedCrossEntropyShape({2, 3, 5}, {9, 5}, {2, 3}).value(), 6);
}

TEST(CrossEntropyDeathTest, TargetsOutsideTheClasses) {
  const Tensor logits = Tensor::Zeros({2, 5}, DType::kFloat32);
  EXPECT_DEATH(CrossEntropy(logits, Ids({2}, {1, 5})), "target 5 of row 1 among 5 classes");
  EXPECT_DEATH(CrossEntropy(logits, Ids({2}, {-2, 1})), "target -2 of row 0");
}

}  // namespace
}  // namespace tost::ops
