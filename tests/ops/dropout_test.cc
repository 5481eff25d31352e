// Dropout and DropPath: masks as functions of key and position, gradients, dtypes.
#include "ops/dropout.h"

#include <cmath>
#include <vector>

#include "autograd/base/parallel.h"
#include "autograd/gradcheck.h"
#include "autograd/tape.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tost::ops {
namespace {

constexpr RandomKey kKey{.seed = 42, .step = 7, .draw = 3, .first_row = 0};
constexpr float kRate = 0.3f;

float Multiplier(const RandomKey& key, int64_t row, int64_t column) {
  return Uniform(key, row, column) >= kRate ? 1.0f / (1.0f - kRate) : 0.0f;
}

TEST(Dropout, TheMaskIsAFunctionOfKeyRowAndColumn) {
  const std::vector<float> mask = DropoutMask({5, 3, 111}, kRate, kKey).ToHost();
  for (int64_t row = 0; row < 5; ++row) {
    for (int64_t column = 0; column < 333; ++column) {
      ASSERT_EQ(mask[static_cast<size_t>(row * 333 + column)], Multiplier(kKey, row, column));
    }
  }
}

TEST(Dropout, MultipliesByTheMask) {
  const Tensor x = Converted(RandomTensor({4, 600}, 1), DType::kFloat32);
  const std::vector<float> in = x.ToHost(), y = Dropout(x, kRate, kKey).ToHost();
  const std::vector<float> mask = DropoutMask({4, 600}, kRate, kKey).ToHost();
  for (size_t i = 0; i < in.size(); ++i) ASSERT_EQ(y[i], in[i] * mask[i]);
}

TEST(Dropout, PathsPassWholeOrNotAtAll) {
  const Tensor x = Converted(RandomTensor({50, 2, 300}, 1, 1, 2), DType::kFloat32);
  const std::vector<float> in = x.ToHost(), y = DropPath(x, kRate, kKey).ToHost();
  for (size_t i = 0; i < in.size(); ++i) {
    ASSERT_EQ(y[i], in[i] * Multiplier(kKey, static_cast<int64_t>(i / 600), 0));
  }
}

TEST(Dropout, ASplitBatchDrawsTheSameMask) {
  const Tensor x = Converted(RandomTensor({6, 77}, 1), DType::kFloat32);
  const std::vector<float> whole = Dropout(x, kRate, kKey).ToHost();
  RandomKey second = kKey;
  second.first_row = 4;
  std::vector<float> parts = Dropout(x.Slice(0, 4), kRate, kKey).ToHost();
  for (const float value : Dropout(x.Slice(4, 2), kRate, second).ToHost()) parts.push_back(value);
  EXPECT_EQ(parts, whole);
}

TEST(Dropout, DrawsDiffer) {
  RandomKey next = kKey;
  ++next.draw;
  EXPECT_NE(DropoutMask({64}, kRate, kKey).ToHost(), DropoutMask({64}, kRate, next).ToHost());
}

TEST(Dropout, DropsTheRateAndKeepsTheMean) {
  const int64_t count = 200000;
  double kept = 0, sum = 0;
  for (const float m : DropoutMask({20, count / 20}, kRate, kKey).ToHost()) {
    kept += m != 0;
    sum += m;
  }
  // Five standard deviations of a binomial with p = 0.7.
  const double tolerance = 5 * std::sqrt(0.7 * 0.3 / static_cast<double>(count));
  EXPECT_NEAR(kept / static_cast<double>(count), 0.7, tolerance);
  EXPECT_NEAR(sum / static_cast<double>(count), 1.0, tolerance / 0.7);
}

TEST(Dropout, RateZeroReturnsTheTensorItself) {
  const Tensor x = Converted(RandomTensor({2, 3}, 1), DType::kFloat32);
  EXPECT_EQ(Dropout(x, 0, kKey).raw(), x.raw());
  EXPECT_EQ(DropPath(x, 0, kKey).raw(), x.raw());
  EXPECT_EQ(DropoutMask({2}, 0, kKey).ToHost(), (std::vector<float>{1, 1}));
}

TEST(Dropout, SameMaskInEveryDType) {
  const std::vector<float> mask = DropoutMask({9, 50}, kRate, kKey).ToHost();
  EXPECT_EQ(DropoutMask({9, 50}, kRate, kKey, DType::kFloat64).ToHost(), mask);
  const std::vector<float> rounded = DropoutMask({9, 50}, kRate, kKey, DType::kBFloat16).ToHost();
  for (size_t i = 0; i < mask.size(); ++i) EXPECT_EQ(rounded[i], bfloat16(mask[i]));
}

TEST(Dropout, SavesTheKeyAndNotTheMask) {
  const Tensor x = Leaf(Converted(RandomTensor({64, 64}, 1), DType::kFloat32));
  DeviceRuntime& runtime = RuntimeOf(Device::Cpu());
  Tape tape;
  const int64_t before = runtime.Memory().live_bytes;
  { const Tensor y = Dropout(x, kRate, kKey); }
  EXPECT_EQ(runtime.Memory().live_bytes, before);
}

TEST(Dropout, SameBitsWithAnyNumberOfThreads) {
  const int before = ThreadCount();
  SetThreadCount(1);
  const std::vector<float> one = DropoutMask({33, 3000}, kRate, kKey).ToHost();
  SetThreadCount(4);
  EXPECT_EQ(DropoutMask({33, 3000}, kRate, kKey).ToHost(), one);
  SetThreadCount(before);
}

TEST(DropoutDeathTest, ARateOfOneIsRefused) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Tensor x = Tensor::Zeros({2}, DType::kFloat32);
  EXPECT_DEATH(Dropout(x, 1, kKey), "rate 1 is outside \\[0, 1\\)");
}

}  // namespace
}  // namespace tost::ops
