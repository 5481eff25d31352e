// Acceptance statement T6 on the device.
#include <vector>

#include "gtest/gtest.h"
#include "ops/reduce.h"
#include "tests/cuda/device_test.h"

namespace tost {
namespace {

// Summed in bfloat16, 256 + 1 rounds to 256 and the sum stands still there.
TEST(T6, PrefixSumsOver1024OnesInBFloat16Give1024) {
  const Tensor ones = OnCuda(Tensor::FromHost({1024}, std::vector<bfloat16>(1024, bfloat16(1.0f))));
  const std::vector<float> sums = ops::Cumsum(ones, 0).ToHost();
  EXPECT_EQ(sums.back(), 1024);
  for (size_t i = 0; i < sums.size(); ++i) {
    // Each sum is exact before it is rounded to bfloat16, once.
    EXPECT_EQ(sums[i], static_cast<float>(bfloat16(static_cast<float>(i + 1)))) << i;
  }
  EXPECT_EQ(ops::Sum(ones).Item(), 1024);
}

}  // namespace
}  // namespace tost
