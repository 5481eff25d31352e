#include "gtest/gtest.h"
#include "ops/linear.h"
#include "ops/matmul.h"
#include "tests/cuda/device_test.h"

namespace tost {
namespace {

Tensor LinearOf(const std::vector<Tensor>& in) { return ops::Linear(in[0], in[1]); }
Tensor MatmulOf(const std::vector<Tensor>& in) { return ops::Matmul(in[0], in[1]); }

// Of sums of up to some 30 products of numbers below 1: float32 rounds each step, bfloat16 the
// operands' gradients and the result once.
double Tolerance(DType dtype) {
  if (dtype == DType::kFloat64) return 1e-14;
  return dtype == DType::kFloat32 ? 4e-6 : 2 * kBFloat16Epsilon;
}

void ExpectProduct(const TensorFunction& fn, const Shape& a, const Shape& b) {
  const Tensor x = RandomTensor(a, 1), y = RandomTensor(b, 2);
  for (const DType dtype : {DType::kFloat64, DType::kFloat32, DType::kBFloat16}) {
    SCOPED_TRACE(Name(dtype));
    ExpectSameAsCpu(fn, {As(dtype, x), As(dtype, y)}, Tolerance(dtype));
  }
}

TEST(Linear, EqualsTheCpu) {
  ExpectProduct(LinearOf, {2, 3, 5}, {7, 5});
  ExpectProduct(LinearOf, {1, 1}, {1, 1});
  ExpectProduct(LinearOf, {33, 17}, {9, 17});
}

TEST(Matmul, BroadcastsBatchesAsTheCpuDoes) {
  ExpectProduct(MatmulOf, {3, 4}, {4, 5});
  ExpectProduct(MatmulOf, {2, 3, 4}, {2, 4, 5});
  ExpectProduct(MatmulOf, {6, 3, 4}, {4, 5});
  ExpectProduct(MatmulOf, {3, 4}, {6, 4, 5});
  ExpectProduct(MatmulOf, {2, 1, 3, 4}, {1, 5, 4, 2});
  ExpectProduct(MatmulOf, {2, 5, 3, 4}, {5, 4, 2});
}

}  // namespace
}  // namespace tost
