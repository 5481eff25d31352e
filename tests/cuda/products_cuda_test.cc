#include "gtest/gtest.h"
#include "ops/linear.h"
#include "tests/cuda/device_test.h"

namespace tost {
namespace {

TEST(Linear, EqualsTheCpu) {
  const Tensor x = RandomTensor({2, 3, 5}, 1), w = RandomTensor({7, 5}, 2);
  const auto linear = [](const std::vector<Tensor>& in) { return ops::Linear(in[0], in[1]); };
  ExpectSameAsCpu(linear, {x, w}, 1e-15);
  ExpectGradcheck(linear, {x, w});
}

}  // namespace
}  // namespace tost
