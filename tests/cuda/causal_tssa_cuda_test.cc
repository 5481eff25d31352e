// CausalTssa on the device: against the CPU and finite differences; streaming.
#include "autograd/tape.h"
#include "gtest/gtest.h"
#include "ops/tssa.h"
#include "tests/cuda/device_test.h"
#include "tests/cuda/tssa_cases.h"

namespace tost {
namespace {

using ops::CausalTssaState;
using testing::Message;

Tensor Plain(const std::vector<Tensor>& x) { return ops::CausalTssa(x[0], x[1], x[2]); }
// The mask is the fourth input as a constant: no gradient flows to it.
Tensor Masked(const std::vector<Tensor>& x) {
  return ops::CausalTssa(x[0], x[1], x[2], x[3].Detached());
}

// The bias is longer than the tokens: rows beyond them get gradient 0.
std::vector<Tensor> Inputs(const TssaCase& c, DType dtype, double size = 1) {
  const DType sums = AccumulateDType(dtype);
  return {As(dtype, RandomTensor(c.Tokens(), /*seed=*/1, -size, size)),
          As(sums, RandomTensor({c.heads, 1}, /*seed=*/2, 0.2, 2)),
          As(sums, RandomTensor({c.heads, c.tokens + 3, 1}, /*seed=*/3, -0.2, 0.2)),
          As(sums, KeepMask(c.Tokens()))};
}

TEST(CausalTssa, EqualsTheCpu) {
  for (const TssaCase& c : TssaCases()) {
    for (const DType dtype : DeviceDTypes()) {
      SCOPED_TRACE(Message() << c.Name() << " " << dtype);
      std::vector<Tensor> inputs = Inputs(c, dtype);
      ExpectSameAsCpu(Masked, inputs, TssaTolerance(dtype));
      inputs.pop_back();
      ExpectSameAsCpu(Plain, inputs, TssaTolerance(dtype));
    }
  }
}

TEST(CausalTssa, EqualsTheCpuAtAllSizesOfValues) {
  const TssaCase c{2, 37, 3, 5};
  for (const double size : {1e-3, 30.0, 1e4}) {
    SCOPED_TRACE(size);
    ExpectSameAsCpu(Masked, Inputs(c, DType::kFloat64, size), 1e-12);
  }
}

// Zero tokens at the start and a channel that is zero throughout: the energy is clamped there.
TEST(CausalTssa, EqualsTheCpuWhereEnergyIsClamped) {
  const TssaCase c{2, 41, 2, 5};
  for (const DType dtype : DeviceDTypes()) {
    std::vector<Tensor> inputs = Inputs(c, dtype);
    inputs[0] = As(dtype, WithZeros(c, /*zero_tokens=*/3));
    ExpectSameAsCpu(Masked, inputs, TssaTolerance(dtype));
  }
}

TEST(CausalTssa, Gradients) {
  for (const TssaCase& c : TssaGradientCases()) {
    SCOPED_TRACE(c.Name());
    const std::vector<Tensor> inputs = {
        // Values away from 0, where a single token's share of the energy has a kink.
        RandomTensor(c.Tokens(), /*seed=*/1, 0.2, 1.2),
        RandomTensor({c.heads, 1}, /*seed=*/2, 0.2, 2),
        RandomTensor({c.heads, c.tokens + 1, 1}, /*seed=*/3, -0.2, 0.2)};
    const Tensor mask = OnCuda(KeepMask(c.Tokens()));
    ExpectGradcheck(Plain, inputs);
    ExpectGradcheck([&](const auto& x) { return ops::CausalTssa(x[0], x[1], x[2], mask); }, inputs);
  }
}

// One of the gradients alone, and gradients that add up.
TEST(CausalTssa, GradientsAddUpAndMayBeUnwanted) {
  const TssaCase c{2, 35, 3, 20};
  for (const DType dtype : DeviceDTypes()) {
    SCOPED_TRACE(dtype);
    const std::vector<Tensor> inputs = Inputs(c, dtype);
    const Tensor dy = OnCuda(As(dtype, RandomTensor(c.Tokens(), /*seed=*/5)));
    std::vector<Tensor> constants, leaves;
    for (size_t i = 0; i < 3; ++i) {
      constants.push_back(OnCuda(inputs[i]));
      leaves.push_back(Leaf(constants[i]));
    }
    for (int pass = 0; pass < 2; ++pass) {
      Tape tape;
      tape.BackwardFrom(Plain(leaves), dy);
    }
    for (size_t i = 0; i < 3; ++i) {
      std::vector<Tensor> one = constants;
      one[i] = Leaf(constants[i]);
      Tape tape;
      tape.BackwardFrom(Plain(one), dy);
      ExpectTwice(leaves[i].grad()->value(), one[i].grad()->value());
    }
  }
}

// Statistics are float32 whatever w is: bfloat16 results are the float32 ones, rounded once.
TEST(CausalTssa, BFloat16RoundsOnlyResults) {
  const TssaCase c{2, 75, 3, 20};
  const std::vector<Tensor> inputs = Inputs(c, DType::kBFloat16);
  const Tensor w = OnCuda(inputs[0]), temp = OnCuda(inputs[1]), bias = OnCuda(inputs[2]);
  const Tensor exact = ops::CausalTssa(Converted(w, DType::kFloat32), temp, bias);
  EXPECT_EQ(ops::CausalTssa(w, temp, bias).ToHost(), Converted(exact, DType::kBFloat16).ToHost());
}

TEST(CausalTssa, LaterTokensDoNotChangeABitOfEarlierOnes) {
  const TssaCase c{1, 100, 3, 8};
  const std::vector<Tensor> inputs = Inputs(c, DType::kFloat32);
  const Tensor temp = OnCuda(inputs[1]), bias = OnCuda(inputs[2]);
  std::vector<float> changed = inputs[0].ToHost();
  const size_t unchanged = 67 * 24;
  for (size_t i = unchanged; i < changed.size(); ++i) changed[i] += 1;
  std::vector<float> a = ops::CausalTssa(OnCuda(inputs[0]), temp, bias).ToHost();
  std::vector<float> b =
      ops::CausalTssa(OnCuda(Tensor::FromHost(c.Tokens(), changed)), temp, bias).ToHost();
  EXPECT_NE(a, b);
  a.resize(unchanged);
  b.resize(unchanged);
  EXPECT_EQ(a, b);
}

void ExpectNear(const Tensor& actual, const Tensor& expected, double tolerance) {
  const std::vector<double> a = actual.ToHost<double>(), b = expected.ToHost<double>();
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << i;
}

void ExpectSameState(const CausalTssaState& actual, const CausalTssaState& expected,
                     double tolerance) {
  ExpectNear(actual.energy, expected.energy, tolerance);
  ExpectNear(actual.weighted_energy, expected.weighted_energy, tolerance);
  ExpectNear(actual.membership, expected.membership, tolerance);
}

// Tokens in pieces of the given lengths, one token by a step, more by a prefill, starting from the
// state that the pieces before have left. `w` is one sequence.
struct Streamed {
  std::vector<double> y;
  CausalTssaState state;
};
Streamed Stream(const std::vector<int64_t>& pieces, const TssaCase& c, const Tensor& w,
                const Tensor& temp, const Tensor& bias) {
  Streamed result;
  result.state = CausalTssaState::Zeros(1, c.heads, c.head_dim, temp.dtype(), temp.device());
  int64_t position = 0;
  for (const int64_t piece : pieces) {
    Tensor y;
    if (piece == 1) {
      const Tensor token = w.View(position * c.width(), {1, c.width()});
      y = ops::CausalTssaStep(result.state, token, temp, bias, position);
    } else {
      const Tensor tokens = w.View(position * c.width(), {1, piece, c.width()});
      y = ops::CausalTssaPrefill(result.state, tokens, temp, bias, position);
    }
    for (const double value : y.ToHost<double>()) result.y.push_back(value);
    position += piece;
  }
  return result;
}

// The full pass on the CPU, and every way of cutting the tokens on the device.
TEST(CausalTssa, StreamingEqualsTheFullPass) {
  for (const TssaCase& c : {TssaCase{1, 75, 3, 8}, TssaCase{1, 75, 2, 5}, TssaCase{1, 75, 1, 1}}) {
    for (const DType dtype : DeviceDTypes()) {
      SCOPED_TRACE(Message() << c.Name() << " " << dtype);
      const std::vector<Tensor> inputs = Inputs(c, dtype);
      CausalTssaState expected =
          CausalTssaState::Zeros(1, c.heads, c.head_dim, AccumulateDType(dtype));
      const Tensor y = ops::CausalTssaPrefill(expected, inputs[0], inputs[1], inputs[2]);
      const double tolerance = TssaTolerance(dtype);
      // Sums of up to 75 squares, and nothing of them is rounded to bfloat16.
      const double state_tolerance = dtype == DType::kFloat64 ? 1e-12 : 1e-4;
      for (const std::vector<int64_t>& pieces : std::vector<std::vector<int64_t>>{
               {75}, {32, 32, 11}, {31, 1, 1, 33, 9}, {1, 1, 1, 72}, {70, 1, 1, 1, 1, 1}}) {
        const Streamed streamed =
            Stream(pieces, c, OnCuda(inputs[0]), OnCuda(inputs[1]), OnCuda(inputs[2]));
        ExpectNear(Tensor::FromHost(c.Tokens(), streamed.y), y, tolerance);
        ExpectSameState(streamed.state, expected, state_tolerance);
      }
    }
  }
}

TEST(CausalTssa, StepsOfSeveralSequences) {
  const TssaCase c{3, 1, 70, 5};
  const std::vector<Tensor> inputs = Inputs(c, DType::kFloat32);
  const Tensor token = inputs[0].Reshaped({3, c.width()});
  CausalTssaState cpu = CausalTssaState::Zeros(3, c.heads, c.head_dim);
  CausalTssaState device =
      CausalTssaState::Zeros(3, c.heads, c.head_dim, DType::kFloat32, CudaDevice());
  for (int64_t position = 0; position < 3; ++position) {
    const Tensor expected = ops::CausalTssaStep(cpu, token, inputs[1], inputs[2], position);
    const Tensor actual =
        ops::CausalTssaStep(device, OnCuda(token), OnCuda(inputs[1]), OnCuda(inputs[2]), position);
    ExpectNear(actual, expected, 1e-6);
  }
  ExpectSameState(device, cpu, 1e-5);
}

// 1 + 2⁻⁹ is lost in a bfloat16 sum, and 256 + 1 stays 256: the sums must not be bfloat16.
TEST(CausalTssa, BFloat16EnergyKeepsGrowing) {
  const int64_t tokens = 1024;
  const Tensor w =
      OnCuda(As(DType::kBFloat16, Tensor::FromHost({1, tokens, 1}, std::vector<float>(tokens, 1))));
  const Tensor temp = OnCuda(Tensor::Zeros({1, 1}, DType::kFloat32));
  const Tensor bias = OnCuda(Tensor::Zeros({1, tokens, 1}, DType::kFloat32));
  CausalTssaState state = CausalTssaState::Zeros(1, 1, 1, DType::kFloat32, CudaDevice());
  ops::CausalTssaPrefill(state, w, temp, bias);
  EXPECT_EQ(state.energy.Item(), tokens);
  EXPECT_EQ(state.weighted_energy.Item(), tokens);
  EXPECT_EQ(state.membership.Item(), tokens);
}

}  // namespace
}  // namespace tost
