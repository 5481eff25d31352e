#include "autograd/tape.h"
#include "gtest/gtest.h"
#include "ops/elementwise.h"

namespace tost {
namespace {

TEST(T2, DerivativeThroughSharedFactorsIsSix) {
  const Tensor x = Leaf(Tensor::Scalar(1, DType::kFloat64));
  const Tensor a = Leaf(Tensor::Scalar(1, DType::kFloat64));
  Tape tape;
  const Tensor f = x * (x * a) + (x * x) * a + x * (x * a);
  tape.Backward(f);
  EXPECT_EQ(x.grad()->value().Item(), 6);
  EXPECT_EQ(a.grad()->value().Item(), 3);
}

}  // namespace
}  // namespace tost
