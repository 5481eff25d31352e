// Finite differences of both operators: every input alone and together, gradients that add up.
#include "autograd/gradcheck.h"
#include "gtest/gtest.h"
#include "ops/cpu/tssa_tile.h"
#include "ops/tssa.h"

namespace tost {
namespace {

struct Case {
  int64_t batch, tokens, heads, head_dim;
};
const Case kCases[] = {{1, 1, 1, 1}, {2, 1, 3, 2},  {1, 6, 1, 3},
                       {2, 5, 3, 3}, {1, 3, 2, 17}, {1, ops::cpu::kChunkTokens + 2, 2, 1}};

Tensor KeepMask(Shape shape) {
  std::vector<double> values = RandomTensor(shape, /*seed=*/7).ToHost<double>();
  for (double& value : values) value = value < -0.5 ? 0 : 1 / 0.75;
  return Tensor::FromHost(shape, values);
}

void Check(const TensorFunction& fn, const std::vector<Tensor>& inputs) {
  const GradcheckReport report = Gradcheck(fn, inputs);
  EXPECT_TRUE(report.passed()) << inputs[0].shape() << "\n" << report.Table();
}

// Values away from 0, where a single token's share of the energy has a kink of width 1e-12.
std::vector<Tensor> Inputs(const Case& c) {
  return {RandomTensor({c.batch, c.tokens, c.heads * c.head_dim}, /*seed=*/1, 0.2, 1.2),
          RandomTensor({c.heads, 1}, /*seed=*/2, 0.2, 2),
          RandomTensor({c.heads, c.tokens + 1, 1}, /*seed=*/3, -0.2, 0.2)};
}

TEST(Tssa, Gradients) {
  for (const Case& c : kCases) {
    const auto inputs = Inputs(c);
    Check([](const auto& x) { return ops::Tssa(x[0], x[1]); }, {inputs[0], inputs[1]});
  }
}

TEST(Tssa, GradientsWithDropout) {
  for (const Case& c : kCases) {
    const auto inputs = Inputs(c);
    const Tensor mask = KeepMask({c.batch, 1, c.heads * c.head_dim});
    Check([&](const auto& x) { return ops::Tssa(x[0], x[1], mask); }, {inputs[0], inputs[1]});
  }
}

TEST(UnnormalizedTssa, Gradients) {
  for (const Case& c : kCases) {
    const auto inputs = Inputs(c);
    const Tensor mask = KeepMask({c.batch, 1, c.heads * c.head_dim});
    Check([&](const auto& x) { return ops::Tssa(x[0], x[1], mask, {.normalized = false}); },
          {inputs[0], inputs[1]});
  }
}

TEST(CausalTssa, Gradients) {
  for (const Case& c : kCases) {
    Check([](const auto& x) { return ops::CausalTssa(x[0], x[1], x[2]); }, Inputs(c));
  }
}

TEST(CausalTssa, GradientsWithDropout) {
  for (const Case& c : kCases) {
    const auto inputs = Inputs(c);
    const Tensor mask = KeepMask(inputs[0].shape());
    Check([&](const auto& x) { return ops::CausalTssa(x[0], x[1], x[2], mask); }, inputs);
  }
}

}  // namespace
}  // namespace tost
