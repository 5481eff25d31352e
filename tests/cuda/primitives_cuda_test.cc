// Every primitive op on the device: its cases of tests/ops, larger shapes, bfloat16.
#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "ops/elementwise.h"
#include "ops/layout.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "tests/cuda/device_test.h"
#include "tests/ops/op_cases.h"

namespace tost {
namespace {

// Of results formed of up to some hundred numbers of size 1, relative to the largest: a rounding
// per step in float32; in bfloat16 the two devices may round a result to neighbouring values.
double Tolerance(DType dtype) {
  if (dtype == DType::kFloat64) return 1e-12;
  return dtype == DType::kFloat32 ? 1e-5 : 2 * kBFloat16Epsilon;
}

std::vector<Tensor> InType(DType dtype, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> converted;
  for (const Tensor& input : inputs) {
    converted.push_back(input.dtype() == DType::kFloat64 ? As(dtype, input) : input);
  }
  return converted;
}

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

TEST_P(PrimitiveOp, EqualsTheCpu) {
  ForInputs([](const TensorFunction& fn, const std::vector<Tensor>& inputs) {
    for (const DType dtype : {DType::kFloat64, DType::kFloat32, DType::kBFloat16}) {
      SCOPED_TRACE(Name(dtype));
      ExpectSameAsCpu(fn, InType(dtype, inputs), Tolerance(dtype));
    }
  });
}

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

// More than one block, whole packs and tails, in every floating type.
void ExpectInAllTypes(const TensorFunction& fn, const std::vector<Tensor>& inputs) {
  for (const DType dtype : {DType::kFloat64, DType::kFloat32, DType::kBFloat16}) {
    SCOPED_TRACE(Name(dtype));
    ExpectSameAsCpu(fn, InType(dtype, inputs), Tolerance(dtype));
  }
}

TEST(Elementwise, PacksTailsAndBroadcasting) {
  const auto multiply = [](const std::vector<Tensor>& x) { return x[0] * x[1]; };
  for (const int64_t columns : {1, 7, 8, 31, 64, 1027}) {
    SCOPED_TRACE(columns);
    const Tensor x = RandomTensor({5, columns}, 1), row = RandomTensor({columns}, 2),
                 column = RandomTensor({5, 1}, 3);
    ExpectInAllTypes(multiply, {x, x});
    ExpectInAllTypes(multiply, {x, row});
    ExpectInAllTypes(multiply, {column, x});
    ExpectInAllTypes([](const std::vector<Tensor>& in) { return ops::Gelu(in[0]); }, {x});
  }
}

TEST(Reduce, LongRowsAndManyRows) {
  const auto sum_last = [](const std::vector<Tensor>& x) { return ops::Sum(x[0], {-1}); };
  const auto sum_first = [](const std::vector<Tensor>& x) { return ops::Sum(x[0], {0}); };
  const auto largest = [](const std::vector<Tensor>& x) { return ops::Max(x[0], {1}); };
  for (const Shape& shape : {Shape{3, 3001}, Shape{1501, 3}, Shape{70, 65}}) {
    SCOPED_TRACE(shape.ToString());
    const Tensor x = RandomTensor(shape, 4);
    ExpectInAllTypes(sum_last, {x});
    ExpectInAllTypes(sum_first, {x});
    ExpectInAllTypes(largest, {x});
  }
}

TEST(Softmax, ShortAndLongRows) {
  for (const int64_t columns : {1, 3, 33, 1500}) {
    SCOPED_TRACE(columns);
    const Tensor x = RandomTensor({4, columns}, 5, -4, 4);
    ExpectInAllTypes([](const std::vector<Tensor>& in) { return ops::Softmax(in[0], 1); }, {x});
    ExpectInAllTypes([](const std::vector<Tensor>& in) { return ops::LogSoftmax(in[0], 1); }, {x});
  }
}

TEST(Layout, PermutesTiles) {
  for (const Shape& shape : {Shape{33, 70}, Shape{1, 9}, Shape{65, 1}}) {
    ExpectInAllTypes(
        [](const std::vector<Tensor>& in) {
          return ops::Permute(in[0], {1, 0});
        },
        {RandomTensor(shape, 6)});
  }
  ExpectInAllTypes(
      [](const std::vector<Tensor>& in) {
        return ops::Permute(in[0], {2, 0, 1});
      },
      {RandomTensor({5, 34, 7}, 7)});
}

TEST(Cumsum, LongAxes) {
  for (const int axis : {0, 1}) {
    ExpectInAllTypes([axis](const std::vector<Tensor>& in) { return ops::Cumsum(in[0], axis); },
                     {RandomTensor({300, 7}, 8)});
  }
}

}  // namespace
}  // namespace tost
