#include "tests/cuda/primitive_checks.h"

#include "gtest/gtest.h"

namespace tost {
namespace {

using Compare = void(const TensorFunction&, const std::vector<Tensor>&, double tolerance);

void In(DType dtype, Compare* compare, const TensorFunction& fn,
        const std::vector<Tensor>& inputs) {
  SCOPED_TRACE(Name(dtype));
  std::vector<Tensor> converted;
  for (const Tensor& input : inputs) {
    converted.push_back(input.dtype() == DType::kFloat64 ? As(dtype, input) : input);
  }
  compare(fn, converted, PrimitiveTolerance(dtype));
}

}  // namespace

double PrimitiveTolerance(DType dtype) {
  if (dtype == DType::kFloat64) return 1e-12;
  return dtype == DType::kFloat32 ? 1e-5 : 2 * kBFloat16Epsilon;
}

void ExpectInAllTypes(const TensorFunction& fn, const std::vector<Tensor>& inputs) {
  for (const DType dtype : DeviceDTypes()) In(dtype, &ExpectSameAsCpu, fn, inputs);
}
void ExpectAsParameters(const TensorFunction& fn, const std::vector<Tensor>& inputs) {
  In(DType::kBFloat16, &ExpectSameAsCpuForParameters, fn, inputs);
}
void ExpectInAllTypesMisaligned(const TensorFunction& fn, const std::vector<Tensor>& inputs) {
  for (const DType dtype : DeviceDTypes()) In(dtype, &ExpectSameAsCpuMisaligned, fn, inputs);
}

}  // namespace tost
