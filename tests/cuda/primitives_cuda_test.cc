// Every primitive op on the device: its cases of tests/ops.
#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/cuda/primitive_checks.h"
#include "tests/ops/op_cases.h"

namespace tost {
namespace {

class PrimitiveOp : public ::testing::TestWithParam<std::string> {
 protected:
  template <class Check>
  void ForInputs(const Check& check) {
    for (const OpCase& c : OpCases()) {
      if (c.name != GetParam()) continue;
      for (size_t i = 0; i < c.inputs.size(); ++i) {
        SCOPED_TRACE(c.name + ", inputs " + std::to_string(i));
        check(c.fn, c.inputs[i]);
      }
    }
  }
};

TEST_P(PrimitiveOp, EqualsTheCpu) { ForInputs(&ExpectInAllTypes); }

TEST_P(PrimitiveOp, GradientsOfParametersEqualTheCpus) { ForInputs(&ExpectAsParameters); }

TEST_P(PrimitiveOp, HasTheRightGradient) {
  if (SmallShapesOnly()) GTEST_SKIP() << "finite differences take too many accesses";
  ForInputs([](const TensorFunction& fn, const std::vector<Tensor>& inputs) {
    // Indices are no inputs of a finite difference.
    const bool floating = std::all_of(inputs.begin(), inputs.end(),
                                      [](const Tensor& x) { return x.dtype() == DType::kFloat64; });
    if (floating) ExpectGradcheck(fn, inputs);
  });
}

std::vector<std::string> OpNames() {
  std::vector<std::string> names;
  for (const OpCase& c : OpCases()) {
    if (std::find(names.begin(), names.end(), c.name) == names.end()) names.push_back(c.name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, PrimitiveOp, ::testing::ValuesIn(OpNames()),
                         [](const auto& named) { return named.param; });

}  // namespace
}  // namespace tost
