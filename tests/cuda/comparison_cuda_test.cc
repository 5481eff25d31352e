// Whether the comparisons of device_test.h see what they are there for.
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest-spi.h"
#include "gtest/gtest.h"
#include "ops/elementwise.h"
#include "tests/cuda/device_test.h"

namespace tost {
namespace {

using testing::HasSubstr;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<Tensor> Vector(const std::vector<double>& values) {
  return {As(DType::kFloat32, Tensor::FromHost({static_cast<int64_t>(values.size())}, values))};
}

// x + c, c another number on the device than on the CPU.
TensorFunction PlusOneOf(double cpu, double device) {
  return [=](const std::vector<Tensor>& x) {
    return x[0] + (x[0].device() == Device::Cpu() ? cpu : device);
  };
}

// The first failure of comparing fn on the device with fn on the CPU, or "".
std::string Failure(const TensorFunction& fn, const std::vector<double>& x) {
  testing::TestPartResultArray results;
  {
    const testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    ExpectSameAsCpu(fn, Vector(x), 1e-4);
  }
  return results.size() == 0 ? "" : results.GetTestPartResult(0).message();
}

TEST(Comparison, SeesDifferences) {
  EXPECT_THAT(Failure(PlusOneOf(0, 1e-3), {1, 2}), HasSubstr("value, element 0"));
  EXPECT_THAT(Failure(PlusOneOf(kInfinity, 0), {1, 2}), HasSubstr("value, element 0"));
  EXPECT_THAT(Failure(PlusOneOf(kInfinity, -kInfinity), {1}), HasSubstr("value, element 0"));
  EXPECT_THAT(Failure(PlusOneOf(0, kNan), {1}), HasSubstr("value, element 0"));
  // The tolerance is relative to the largest finite number.
  EXPECT_THAT(Failure(PlusOneOf(0, 1), {kInfinity, 2}), HasSubstr("value, element 1"));
  const auto other_gradient = [](const std::vector<Tensor>& x) {
    return x[0].device() == Device::Cpu() ? x[0] + x[0].Detached() : 2 * x[0];
  };
  EXPECT_THAT(Failure(other_gradient, {1, 2}), HasSubstr("gradient of input 0, element 0"));
}

TEST(Comparison, TakesEqualInfinitiesAndNaN) {
  const auto values = Vector({kInfinity, -kInfinity, kNan, 1});
  ExpectSameAsCpu(PlusOneOf(0, 0), values, 0);
  ExpectSameAsCpuMisaligned(PlusOneOf(0, 0), values, 0);
}

TEST(Comparison, MisalignedInputsLieOneElementFurther) {
  const Tensor x = OnCudaMisaligned(Vector({1, 2, 3, 4})[0]);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(x.raw()) % 16, sizeof(float));
  EXPECT_EQ(x.ToHost<double>(), (std::vector<double>{1, 2, 3, 4}));
}

}  // namespace
}  // namespace tost
