// What the tests of primitive ops on the device share.
#ifndef TOST_TESTS_CUDA_PRIMITIVE_CHECKS_H_
#define TOST_TESTS_CUDA_PRIMITIVE_CHECKS_H_

#include <vector>

#include "tests/cuda/device_test.h"

namespace tost {

// Of results formed of up to some hundred numbers of size 1, relative to the largest: a rounding
// per step in float32; in bfloat16 the two devices may round a result to neighbouring values.
double PrimitiveTolerance(DType dtype);

// ExpectSameAsCpu in every type of the device; inputs in float64 are converted.
void ExpectInAllTypes(const TensorFunction& fn, const std::vector<Tensor>& inputs);
// For gradients in float32 of bfloat16 inputs.
void ExpectAsParameters(const TensorFunction& fn, const std::vector<Tensor>& inputs);
void ExpectInAllTypesMisaligned(const TensorFunction& fn, const std::vector<Tensor>& inputs);

}  // namespace tost

#endif  // TOST_TESTS_CUDA_PRIMITIVE_CHECKS_H_
