// Tssa on the device: against the CPU and finite differences.
#include <cmath>

#include "autograd/tape.h"
#include "gtest/gtest.h"
#include "ops/tssa.h"
#include "tests/cuda/device_test.h"
#include "tests/cuda/tssa_cases.h"

namespace tost {
namespace {

using testing::Message;

TensorFunction Plain(const ops::TssaOptions& options = {}) {
  return [options](const auto& x) { return ops::Tssa(x[0], x[1], {}, options); };
}
// The mask is the third input as a constant: no gradient flows to it.
TensorFunction Masked(const ops::TssaOptions& options = {}) {
  return [options](const auto& x) { return ops::Tssa(x[0], x[1], x[2].Detached(), options); };
}

std::vector<Tensor> Inputs(const TssaCase& c, DType dtype, double size = 1) {
  const DType sums = AccumulateDType(dtype);
  return {As(dtype, RandomTensor(c.Tokens(), /*seed=*/1, -size, size)),
          As(sums, RandomTensor({c.heads, 1}, /*seed=*/2, 0.2, 2)),
          As(sums, KeepMask({c.batch, 1, c.width()}))};
}

TEST(Tssa, EqualsTheCpu) {
  for (const TssaCase& c : TssaCases()) {
    for (const DType dtype : DeviceDTypes()) {
      SCOPED_TRACE(Message() << c.Name() << " " << dtype);
      std::vector<Tensor> inputs = Inputs(c, dtype);
      ExpectSameAsCpu(Masked(), inputs, TssaTolerance(dtype));
      inputs.pop_back();
      ExpectSameAsCpu(Plain(), inputs, TssaTolerance(dtype));
    }
  }
}

TEST(Tssa, UnnormalizedEqualsTheCpu) {
  for (const TssaCase& c : TssaCases()) {
    for (const DType dtype : DeviceDTypes()) {
      SCOPED_TRACE(Message() << c.Name() << " " << dtype);
      ExpectSameAsCpu(Masked({.normalized = false}), Inputs(c, dtype), TssaTolerance(dtype));
    }
  }
}

TEST(Tssa, EqualsTheCpuAtAllSizesOfValues) {
  const TssaCase c{2, 37, 3, 5};
  for (const double size : {1e-3, 30.0, 1e4}) {
    SCOPED_TRACE(size);
    ExpectSameAsCpu(Plain(), Inputs(c, DType::kFloat64, size), 1e-12);
    ExpectSameAsCpu(Plain({.normalized = false}), Inputs(c, DType::kFloat64, size), 1e-12);
  }
}

TEST(Tssa, EqualsTheCpuForZeroTokensAndChannels) {
  const TssaCase c{2, 41, 2, 5};
  for (const DType dtype : DeviceDTypes()) {
    std::vector<Tensor> inputs = Inputs(c, dtype);
    inputs[0] = As(dtype, WithZeros(c, /*zero_tokens=*/1));
    ExpectSameAsCpu(Masked(), inputs, TssaTolerance(dtype));
  }
}

TEST(Tssa, Gradients) {
  for (const TssaCase& c : TssaGradientCases()) {
    SCOPED_TRACE(c.Name());
    // Values away from 0, where a single token's share of the energy has a kink.
    const Tensor w = RandomTensor(c.Tokens(), /*seed=*/1, 0.2, 1.2);
    const Tensor temp = RandomTensor({c.heads, 1}, /*seed=*/2, 0.2, 2);
    const Tensor mask = OnCuda(KeepMask({c.batch, 1, c.width()}));
    ExpectGradcheck(Plain(), {w, temp});
    ExpectGradcheck([&](const auto& x) { return ops::Tssa(x[0], x[1], mask); }, {w, temp});
    ExpectGradcheck(
        [&](const auto& x) { return ops::Tssa(x[0], x[1], mask, {.normalized = false}); },
        {w, temp});
  }
}

// One of the gradients alone, and gradients that add up.
TEST(Tssa, GradientsAddUpAndMayBeUnwanted) {
  const TssaCase c{2, 35, 3, 20};
  for (const DType dtype : DeviceDTypes()) {
    SCOPED_TRACE(dtype);
    const std::vector<Tensor> inputs = Inputs(c, dtype);
    const Tensor w = OnCuda(inputs[0]), temp = OnCuda(inputs[1]);
    const Tensor dy = OnCuda(As(dtype, RandomTensor(c.Tokens(), /*seed=*/5)));
    const auto run = [&](const Tensor& w_in, const Tensor& temp_in, int passes) {
      for (int pass = 0; pass < passes; ++pass) {
        Tape tape;
        tape.BackwardFrom(ops::Tssa(w_in, temp_in), dy);
      }
    };
    const Tensor w1 = Leaf(w), temp1 = Leaf(temp), w2 = Leaf(w), temp2 = Leaf(temp);
    run(w1, temp, 1);
    run(w, temp1, 1);
    run(w2, temp2, 2);
    ExpectTwice(w2.grad()->value(), w1.grad()->value());
    ExpectTwice(temp2.grad()->value(), temp1.grad()->value());
  }
}

// Statistics are float32 whatever w is: bfloat16 results are the float32 ones, rounded once.
TEST(Tssa, BFloat16RoundsOnlyResults) {
  const TssaCase c{2, 40, 3, 20};
  const Tensor w = OnCuda(As(DType::kBFloat16, RandomTensor(c.Tokens(), /*seed=*/1)));
  const Tensor temp = OnCuda(Inputs(c, DType::kFloat32)[1]);
  const Tensor exact = ops::Tssa(Converted(w, DType::kFloat32), temp);
  EXPECT_EQ(ops::Tssa(w, temp).ToHost(), Converted(exact, DType::kBFloat16).ToHost());
}

// Logits of 1e10 and more, of either sign, in float32.
TEST(Tssa, UnnormalizedIsFiniteForLargeTokens) {
  const Tensor w = Leaf(OnCuda(As(DType::kFloat32, RandomTensor({2, 40, 3 * 20}, 1, -1e4, 1e4))));
  const Tensor temp = Leaf(OnCuda(Tensor::FromHost({3, 1}, std::vector<float>{30, -1, 1})));
  Tape tape;
  const Tensor y = ops::Tssa(w, temp, {}, {.normalized = false});
  tape.BackwardFrom(y, OnCuda(As(DType::kFloat32, RandomTensor(y.shape(), 5))));
  for (const Tensor& values : {y, w.grad()->value(), temp.grad()->value()}) {
    for (const float value : values.ToHost()) ASSERT_TRUE(std::isfinite(value));
  }
}

}  // namespace
}  // namespace tost
