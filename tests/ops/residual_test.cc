// ScaledResidual: the formula, the gradient that is handed on, dtypes, messages.
#include "ops/residual.h"

#include <vector>

#include "autograd/base/parallel.h"
#include "autograd/gradcheck.h"
#include "autograd/tape.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tost::ops {
namespace {

// One float32 rounding of a sum below 4, and one bfloat16 rounding.
constexpr double kFloatTolerance = 2.5e-7;
constexpr double kBf16Tolerance = 1.0 / 128;

TEST(ScaledResidual, EqualsTheFormula) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
    const Tensor x = Converted(RandomTensor({2, 9, 37}, 1), dtype);
    const Tensor y = Converted(RandomTensor({2, 9, 37}, 2), dtype);
    const Tensor gamma = Converted(RandomTensor({37}, 3), AccumulateDType(dtype));
    const std::vector<double> xs = x.ToHost<double>(), ys = y.ToHost<double>();
    const std::vector<double> gammas = gamma.ToHost<double>();
    const std::vector<double> scaled = ScaledResidual(x, gamma, y).ToHost<double>();
    const std::vector<double> plain = ScaledResidual(x, {}, y).ToHost<double>();
    const double tolerance = dtype == DType::kBFloat16 ? kBf16Tolerance : kFloatTolerance;
    for (size_t i = 0; i < xs.size(); ++i) {
      ASSERT_NEAR(scaled[i], xs[i] + gammas[i % 37] * ys[i], tolerance);
      ASSERT_NEAR(plain[i], xs[i] + ys[i], tolerance);
    }
  }
}

TEST(ScaledResidual, HandsTheGradientOnWithoutACopy) {
  const Tensor leaf = Leaf(Converted(RandomTensor({64, 32}, 1), DType::kFloat32));
  const Tensor gamma = Converted(RandomTensor({32}, 2), DType::kFloat32);
  const Tensor branch = Converted(RandomTensor({64, 32}, 3), DType::kFloat32);
  Tape tape;
  Tensor z = leaf;
  for (int depth = 0; depth < 4; ++depth) z = ScaledResidual(z, gamma, branch);
  Tensor dz = Converted(RandomTensor({64, 32}, 4), DType::kFloat32);
  const std::vector<float> expected = dz.ToHost();
  DeviceRuntime& runtime = RuntimeOf(Device::Cpu());
  runtime.ResetPeakMemory();
  const int64_t before = runtime.Memory().live_bytes;
  tape.BackwardFrom(z, dz);
  EXPECT_EQ(leaf.grad()->value().ToHost(), expected);
  // The leaf's own gradient and the first node's copy, because `dz` above stays in use.
  EXPECT_LE(runtime.Memory().peak_bytes - before, 2 * 64 * 32 * 4);
}

TEST(ScaledResidual, Bf16SumsTheGradientOfGammaInFloat32) {
  const Tensor x = Converted(RandomTensor({300, 8}, 1), DType::kBFloat16);
  const Tensor y = Converted(RandomTensor({300, 8}, 2), DType::kBFloat16);
  const Tensor dz = Converted(RandomTensor({300, 8}, 3), DType::kBFloat16);
  const Tensor gamma = Leaf(Converted(RandomTensor({8}, 4), DType::kFloat32));
  Tape tape;
  tape.BackwardFrom(ScaledResidual(x, gamma, y), dz);
  const std::vector<double> ys = y.ToHost<double>(), ds = dz.ToHost<double>();
  const std::vector<double> got = gamma.grad()->value().ToHost<double>();
  for (size_t c = 0; c < 8; ++c) {
    double sum = 0;
    for (size_t r = 0; r < 300; ++r) sum += ys[r * 8 + c] * ds[r * 8 + c];
    EXPECT_NEAR(got[c], sum, 300 * kFloatTolerance);
  }
}

TEST(ScaledResidual, SameBitsWithAnyNumberOfThreads) {
  auto run = [](int threads) {
    const int before = ThreadCount();
    SetThreadCount(threads);
    const Tensor x = Converted(RandomTensor({2000, 48}, 1), DType::kFloat32);
    const Tensor gamma = Leaf(Converted(RandomTensor({48}, 2), DType::kFloat32));
    Tape tape;
    tape.BackwardFrom(ScaledResidual(x, gamma, x), x);
    SetThreadCount(before);
    return gamma.grad()->value().ToHost();
  };
  const auto one = run(1);
  EXPECT_EQ(run(2), one);
  EXPECT_EQ(run(5), one);
}

TEST(ScaledResidualShape, NamesTheRuleAndTheValues) {
  EXPECT_EQ(*ScaledResidualShape({2, 8}, Shape{8}, {2, 8}), (Shape{2, 8}));
  EXPECT_EQ(ScaledResidualShape({2, 8}, std::nullopt, {8, 2}).status().message(),
            "ScaledResidual: shapes differ: x [2, 8] and y [8, 2]");
  EXPECT_EQ(ScaledResidualShape({2, 8}, Shape{2}, {2, 8}).status().message(),
            "ScaledResidual: gamma is [2] but x is [2, 8]");
}

}  // namespace
}  // namespace tost::ops
