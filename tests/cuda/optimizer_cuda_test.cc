// Optimizers and norms on the device.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "ops/optimizer_kernels.h"
#include "tests/cuda/device_test.h"

namespace tost {
namespace {

using Values = std::vector<double>;

// Elements that leave a tail of a pack and of a block, and those of several ranges of a norm.
std::vector<int64_t> Counts() {
  std::vector<int64_t> counts{1, 3, 1030};
  if (!SmallShapesOnly()) counts.push_back(9001);
  return counts;
}

// One rounding in the type of the values; the CPU may fuse a multiplication with an addition.
double Tolerance(DType dtype) { return dtype == DType::kFloat64 ? 1e-14 : 1e-6; }

void ExpectNear(const Values& actual, const Values& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i]))) << i;
  }
}

// `run(device)` gives the same results on both devices, and the same bits in every thread order.
template <class Run>
void ExpectSameUpdate(const Run& run, double tolerance) {
  const std::vector<Values> expected = run(Device::Cpu());
  std::vector<Values> first;
  ForEachThreadOrder([&](const std::string& order) {
    SCOPED_TRACE(order);
    const std::vector<Values> actual = run(CudaDevice());
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) ExpectNear(actual[i], expected[i], tolerance);
    if (first.empty()) first = actual;
    EXPECT_EQ(actual, first);
  });
}

Tensor Random(int64_t count, uint64_t seed, DType dtype, Device device, int64_t offset = 0) {
  const Tensor whole = As(dtype, RandomTensor({offset + count}, seed)).To(device);
  return whole.View(offset, Shape{count});
}

TEST(SquaredNorm, EqualsTheCpu) {
  for (const int64_t count : Counts()) {
    for (const DType dtype : DeviceSumDTypes()) {
      for (const int64_t offset : {0, 1}) {
        SCOPED_TRACE(testing::Message() << count << " from " << offset << " " << Name(dtype));
        ExpectSameUpdate(
            [&](Device device) {
              Tensor sum = Tensor::Zeros({}, DType::kFloat64, device);
              const Tensor x = Random(count, 1, dtype, device, offset);
              ops::SquaredNorm(x, /*add=*/false, sum);
              ops::SquaredNorm(x, /*add=*/true, sum);
              return std::vector<Values>{sum.ToHost<double>()};
            },
            1e-13);
      }
    }
  }
}

// The scalars of an update whose gradient has this squared norm.
Tensor UpdateOf(double squares, Device device) {
  Tensor update = ops::NewUpdateScalars(device, /*updates=*/2);
  ops::BeginUpdate({.clip_norm = 0.5, .beta1 = 0.9, .beta2 = 0.95},
                   Tensor::FromHost<double>({}, {squares}, device), update);
  return update;
}

TEST(BeginUpdate, EqualsTheCpu) {
  for (const double squares : {0.01, 4.0, std::numeric_limits<double>::infinity()}) {
    SCOPED_TRACE(squares);
    const ops::UpdateScalars expected = ops::ReadUpdateScalars(UpdateOf(squares, Device::Cpu()));
    const ops::UpdateScalars actual = ops::ReadUpdateScalars(UpdateOf(squares, CudaDevice()));
    EXPECT_EQ(actual.finite, expected.finite);
    EXPECT_EQ(actual.updates, expected.updates);
    EXPECT_DOUBLE_EQ(actual.gradient_norm, expected.gradient_norm);
    EXPECT_DOUBLE_EQ(actual.clip_factor, expected.clip_factor);
    EXPECT_DOUBLE_EQ(actual.correction1, expected.correction1);
    EXPECT_DOUBLE_EQ(actual.correction2, expected.correction2);
  }
}

constexpr double kSquares[] = {0.01, 4.0, std::numeric_limits<double>::infinity()};

TEST(AdamW, EqualsTheCpu) {
  for (const int64_t count : Counts()) {
    for (const DType dtype : DeviceSumDTypes()) {
      for (const int64_t offset : {0, 1}) {
        for (const double squares : kSquares) {
          SCOPED_TRACE(testing::Message() << count << " from " << offset << " " << Name(dtype)
                                          << " squares " << squares);
          ExpectSameUpdate(
              [&](Device device) {
                const Tensor gradient = Random(count, 1, dtype, device, offset);
                Tensor value = Random(count, 2, dtype, device, offset);
                Tensor first = Random(count, 3, dtype, device, offset);
                Tensor second = Tensor::Zeros({count}, dtype, device);
                Tensor compute = Tensor::Zeros({count}, DType::kBFloat16, device);
                Tensor none;
                const Tensor update = UpdateOf(squares, device);
                ops::AdamW({.weight_decay = 0.1}, update, gradient, value, first, second, compute);
                ops::AdamW({.weight_decay = 0}, update, gradient, value, first, second, none);
                const Values values = value.ToHost<double>(), firsts = first.ToHost<double>();
                return std::vector<Values>{values, firsts, second.ToHost<double>()};
              },
              Tolerance(dtype));
        }
      }
    }
  }
}

TEST(AdamW, TheBFloat16CopyIsTheRoundedValue) {
  const Device device = CudaDevice();
  Tensor value = Random(37, 2, DType::kFloat32, device),
         first = Random(37, 3, DType::kFloat32, device);
  Tensor second = Tensor::Zeros({37}, DType::kFloat32, device);
  Tensor compute = Tensor::Zeros({37}, DType::kBFloat16, device);
  ops::AdamW({}, UpdateOf(4, device), Random(37, 1, DType::kFloat32, device), value, first, second,
             compute);
  EXPECT_EQ(compute.ToHost<double>(),
            Converted(value.To(Device::Cpu()), DType::kBFloat16).ToHost<double>());
}

TEST(Sgd, EqualsTheCpu) {
  for (const int64_t count : Counts()) {
    for (const DType dtype : DeviceSumDTypes()) {
      for (const int64_t offset : {0, 1}) {
        for (const double squares : kSquares) {
          SCOPED_TRACE(testing::Message() << count << " from " << offset << " " << Name(dtype)
                                          << " squares " << squares);
          ExpectSameUpdate(
              [&](Device device) {
                const Tensor gradient = Random(count, 1, dtype, device, offset);
                Tensor value = Random(count, 2, dtype, device, offset);
                Tensor momentum = Random(count, 3, dtype, device, offset);
                Tensor compute = Tensor::Zeros({count}, DType::kBFloat16, device);
                ops::Sgd({.weight_decay = 0.1}, UpdateOf(squares, device), gradient, value,
                         momentum, compute);
                return std::vector<Values>{value.ToHost<double>(), momentum.ToHost<double>()};
              },
              Tolerance(dtype));
        }
      }
    }
  }
}

// The first update takes the gradient as it is, whatever the buffer holds.
TEST(Sgd, FirstStepForgetsTheBuffer) {
  const Device device = CudaDevice();
  Tensor update = ops::NewUpdateScalars(device);
  ops::BeginUpdate({}, Tensor::FromHost<double>({}, {1.0}, device), update);
  const Tensor gradient = Random(5, 1, DType::kFloat32, device);
  Tensor value = Random(5, 2, DType::kFloat32, device), none;
  Tensor momentum = Tensor::FromHost<float>({5}, std::vector<float>(5, NAN), device);
  ops::Sgd({.weight_decay = 0}, update, gradient, value, momentum, none);
  EXPECT_EQ(momentum.ToHost<double>(), gradient.ToHost<double>());
}

TEST(ExponentialMovingAverage, EqualsTheCpu) {
  for (const int64_t count : Counts()) {
    for (const DType dtype : DeviceSumDTypes()) {
      for (const double squares : kSquares) {
        SCOPED_TRACE(testing::Message() << count << " " << Name(dtype) << " squares " << squares);
        ExpectSameUpdate(
            [&](Device device) {
              const Tensor value = Random(count, 1, dtype, device);
              Tensor average = Random(count, 2, dtype, device);
              ops::ExponentialMovingAverage(0.99, UpdateOf(squares, device), value, average);
              ops::ExponentialMovingAverage(0.9, Tensor(), value, average);
              return std::vector<Values>{average.ToHost<double>()};
            },
            Tolerance(dtype));
      }
    }
  }
}

}  // namespace
}  // namespace tost
