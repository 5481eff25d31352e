// Batch normalisation on the device, in training and evaluation, with its running statistics.
#include <vector>

#include "gtest/gtest.h"
#include "ops/batch_norm.h"
#include "tests/cuda/device_test.h"

namespace tost {
namespace {

using ops::BatchNormState;

constexpr DType kDTypes[] = {DType::kFloat64, DType::kFloat32, DType::kBFloat16};

// Means over hundreds of rows in another order than on the CPU; bfloat16 results and gradients are
// rounded once and may fall on either side.
double Tolerance(DType dtype) {
  if (dtype == DType::kFloat64) return 1e-11;
  return dtype == DType::kFloat32 ? 1e-5 : 2 * kBFloat16Epsilon;
}

struct Extents {
  int64_t rows, channels;
};
// One channel, two rows, tails of packs, more rows than a block takes at once, more channels than a
// block has.
std::vector<Extents> AllExtents() {
  std::vector<Extents> all{{2, 1}, {3, 7}, {9, 64}, {40, 5}};
  if (!SmallShapesOnly()) all.insert(all.end(), {{700, 24}, {5, 1030}});
  return all;
}

Tensor Statistics(int64_t channels, uint64_t seed, double low, double high, DType dtype,
                  Device device) {
  return As(AccumulateDType(dtype), RandomTensor({channels}, seed, low, high)).To(device);
}
BatchNormState StateOf(int64_t channels, DType dtype, Device device) {
  return {.running_mean = Statistics(channels, 5, -1, 1, dtype, device),
          .running_variance = Statistics(channels, 6, 0.5, 2, dtype, device)};
}

std::vector<Tensor> Inputs(const Extents& e, DType dtype) {
  return {As(dtype, RandomTensor({e.rows, e.channels}, 1, -2, 5)),
          As(AccumulateDType(dtype), RandomTensor({e.channels}, 2)),
          As(AccumulateDType(dtype), RandomTensor({e.channels}, 3))};
}

Tensor Training(const std::vector<Tensor>& in) {
  BatchNormState state = StateOf(in[0].shape()[-1], in[0].dtype(), in[0].device());
  return ops::BatchNorm(in[0], in[1], in[2], {}, state);
}
Tensor Evaluation(const std::vector<Tensor>& in) {
  const BatchNormState state = StateOf(in[0].shape()[-1], in[0].dtype(), in[0].device());
  return ops::BatchNormEvaluation(in[0], in[1], in[2], 1e-5, state);
}

TEST(BatchNorm, EqualsTheCpu) {
  for (const Extents& e : AllExtents()) {
    for (const DType dtype : kDTypes) {
      SCOPED_TRACE(testing::Message() << e.rows << " x " << e.channels << " " << Name(dtype));
      ExpectSameAsCpu(Training, Inputs(e, dtype), Tolerance(dtype));
      ExpectSameAsCpu(Evaluation, Inputs(e, dtype), Tolerance(dtype));
    }
  }
}

TEST(BatchNorm, HasTheRightGradient) {
  if (SmallShapesOnly()) GTEST_SKIP() << "finite differences take too many accesses";
  ExpectGradcheck(Training, Inputs({9, 3}, DType::kFloat64));
  ExpectGradcheck(Evaluation, Inputs({9, 3}, DType::kFloat64));
}

TEST(BatchNorm, TracksStatisticsAsTheCpuDoes) {
  const Extents e{40, 5};
  for (const DType dtype : DeviceDTypes()) {
    SCOPED_TRACE(Name(dtype));
    const auto tracked = [&](Device device) {
      std::vector<Tensor> in;
      for (const Tensor& input : Inputs(e, dtype)) in.push_back(input.To(device));
      BatchNormState state = StateOf(e.channels, dtype, device);
      ops::BatchNorm(in[0], in[1], in[2], {}, state);
      std::vector<double> values = state.running_mean.ToHost<double>();
      for (double v : state.running_variance.ToHost<double>()) values.push_back(v);
      return values;
    };
    const std::vector<double> expected = tracked(Device::Cpu()), actual = tracked(CudaDevice());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(actual[i], expected[i], dtype == DType::kFloat64 ? 1e-12 : 1e-5) << i;
    }
  }
}

}  // namespace
}  // namespace tost
