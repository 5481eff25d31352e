#include "tests/ops/op_cases.h"

#include <utility>

#include "ops/elementwise.h"
#include "ops/layout.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/softmax.h"

namespace tost {
namespace {

using Inputs = std::vector<Tensor>;

// Values from which a set of inputs is drawn; with `zeros` every third one is exactly 0.
struct Domain {
  double low = -2, high = 2;
  bool zeros = true;
};

Tensor Draw(const Shape& shape, uint64_t seed, const Domain& domain) {
  const Tensor x = RandomTensor(shape, seed, domain.low, domain.high);
  if (!domain.zeros) return x;
  std::vector<double> values = x.ToHost<double>();
  for (size_t i = 0; i < values.size(); i += 3) values[i] = 0;
  return Tensor::FromHost(shape, values);
}

Tensor Filled(const Shape& shape, double value) {
  return Tensor::FromHost(shape, std::vector<double>(static_cast<size_t>(shape.numel()), value));
}

// For an op on x.
Tensor Indices(const Tensor& x, const Shape& shape, const std::vector<int32_t>& values) {
  return Tensor::FromHost(shape, values, x.device());
}

std::vector<Inputs> Single(const std::vector<Shape>& shapes, const Domain& domain = {}) {
  std::vector<Inputs> sets;
  for (const Shape& shape : shapes) sets.push_back({Draw(shape, 11, domain)});
  return sets;
}

std::vector<Inputs> Pairs(const Domain& a, const Domain& b) {
  std::vector<Inputs> sets;
  for (const BroadcastPattern& pattern : BroadcastPatterns()) {
    sets.push_back({Draw(pattern.a, 21, a), Draw(pattern.b, 22, b)});
  }
  return sets;
}

constexpr Domain kPositive{.low = 0.5, .high = 2, .zeros = false};
// Without zeros, for ops that have a kink there.
constexpr Domain kNoZeros{.low = -2, .high = 2, .zeros = false};

using UnaryFunction = Tensor (*)(const Tensor&);
OpCase Unary(const char* name, UnaryFunction fn, const Domain& domain = {}) {
  return {name, [fn](const Inputs& x) { return fn(x[0]); },
          Single({{}, {1}, {5}, {2, 3}, {3, 1, 7}}, domain)};
}

using BinaryFunction = Tensor (*)(const Tensor&, const Tensor&);
OpCase Binary(const char* name, BinaryFunction fn, const Domain& a = {}, const Domain& b = {}) {
  return {name, [fn](const Inputs& x) { return fn(x[0], x[1]); }, Pairs(a, b)};
}

void AddUnaryCases(std::vector<OpCase>& cases) {
  cases.push_back(Unary("Exp", ops::Exp));
  cases.push_back(Unary("Log", ops::Log, kPositive));
  cases.push_back(Unary("Sqrt", ops::Sqrt, kPositive));
  cases.push_back(Unary("Rsqrt", ops::Rsqrt, kPositive));
  cases.push_back(Unary("Abs", ops::Abs, kNoZeros));
  cases.push_back(Unary("Square", ops::Square));
  cases.push_back(Unary("Relu", ops::Relu, kNoZeros));
  cases.push_back(Unary("Sigmoid", ops::Sigmoid));
  cases.push_back(Unary("Tanh", ops::Tanh));
  cases.push_back(Unary("Gelu", ops::Gelu));
  cases.push_back(Unary("GeluTanh", ops::GeluTanh));
  cases.push_back(Unary("Clamp", [](const Tensor& x) { return ops::Clamp(x, -0.7, 0.9); }));
  cases.push_back(Unary("Negate", [](const Tensor& x) { return -x; }));
  cases.push_back(Unary("PowScalar", [](const Tensor& x) { return ops::Pow(x, 2); }));
  cases.push_back(Unary("PowScalar", [](const Tensor& x) { return ops::Pow(x, 3); }));
  cases.push_back(Unary("PowScalar", [](const Tensor& x) { return ops::Pow(x, 1); }));
  cases.push_back(Unary("PowScalar", [](const Tensor& x) { return ops::Pow(x, 0); }));
  cases.push_back(Unary(
      "PowScalar", [](const Tensor& x) { return ops::Pow(x, -1.5); }, kPositive));
  cases.push_back(Unary("AddScalar", [](const Tensor& x) { return 2 + (x + 3); }));
  cases.push_back(Unary("SubtractScalar", [](const Tensor& x) { return 2 - (x - 3); }));
  cases.push_back(Unary("MultiplyScalar", [](const Tensor& x) { return 3 * (x * 0.5); }));
  cases.push_back(Unary("DivideScalar", [](const Tensor& x) { return x / 3; }));
  cases.push_back(Unary(
      "DivideScalar", [](const Tensor& x) { return 2 / x; }, kPositive));
}

void AddBinaryCases(std::vector<OpCase>& cases) {
  cases.push_back(Binary("Add", operator+));
  cases.push_back(Binary("Subtract", operator-));
  cases.push_back(Binary("Multiply", operator*));
  cases.push_back(Binary("Divide", operator/, {}, kPositive));
  cases.push_back(Binary("Maximum", ops::Maximum, {}, kNoZeros));
  cases.push_back(Binary("Minimum", ops::Minimum, kNoZeros, {}));
  cases.push_back(Binary("Pow", ops::Pow, kPositive, {}));
  // 0^y at whole y > 1, where both derivatives exist and are 0.
  OpCase at_zero = Binary("Pow", ops::Pow);
  at_zero.inputs.clear();
  for (const BroadcastPattern& pattern : BroadcastPatterns()) {
    at_zero.inputs.push_back({Draw(pattern.a, 23, {.low = 0, .high = 2}), Filled(pattern.b, 2)});
  }
  cases.push_back(std::move(at_zero));
  cases.push_back(Binary("Where", [](const Tensor& a, const Tensor& b) {
    const Tensor condition =
        Converted(Tensor::FromHost({2, 1}, std::vector<double>{1, 0}, a.device()), a.dtype());
    // The condition has an axis of its own, so that every pattern is met by one that repeats it.
    auto stacked = [](const Tensor& x) {
      std::vector<int64_t> extents(x.shape().extents().begin(), x.shape().extents().end());
      extents.insert(extents.end(), {1, 1});
      return ops::Reshape(x, Shape(extents));
    };
    return ops::Where(condition, stacked(a), stacked(b));
  }));
}

void AddReduceCases(std::vector<OpCase>& cases) {
  using Reduction = Tensor (*)(const Tensor&, const ops::Axes&, bool);
  auto add = [&](const char* name, Reduction fn, const Domain& domain) {
    const std::vector<Shape> shapes{{2, 3, 4}, {1, 1, 5}, {3, 1, 2}};
    for (const ops::Axes& axes : std::vector<ops::Axes>{{}, {0}, {1}, {-1}, {0, 2}, {2, 1}}) {
      for (bool keep_dims : {false, true}) {
        cases.push_back({name, [=](const Inputs& x) { return fn(x[0], axes, keep_dims); },
                         Single(shapes, domain)});
      }
    }
    cases.push_back({name, [=](const Inputs& x) { return fn(x[0], {}, false); },
                     Single({{}, {1}, {37}}, domain)});
  };
  add("Sum", ops::Sum, {});
  add("Mean", ops::Mean, {});
  add("Max", ops::Max, kNoZeros);
  add("Variance", ops::Variance, {});
  add("LogSumExp", ops::LogSumExp, {});
  for (int axis : {0, 1, -1}) {
    cases.push_back({"Cumsum", [=](const Inputs& x) { return ops::Cumsum(x[0], axis); },
                     Single({{2, 3, 4}, {1, 1, 5}, {3, 1, 1}})});
  }
}

void AddLayoutCases(std::vector<OpCase>& cases) {
  auto add = [&](const char* name, TensorFunction fn, const std::vector<Shape>& shapes) {
    cases.push_back({name, std::move(fn), Single(shapes)});
  };
  add("Reshape", [](const Inputs& x) { return ops::Reshape(x[0], {3, -1}) * 2; }, {{2, 3}, {12}});
  for (const std::vector<int>& axes : {std::vector<int>{0, 2, 1}, {2, 0, 1}, {-1, 1, 0}}) {
    add("Permute", [=](const Inputs& x) { return ops::Permute(x[0], axes); },
        {{2, 3, 4}, {1, 5, 1}});
  }
  add("Transpose", [](const Inputs& x) { return ops::Transpose(x[0]); }, {{2, 3}, {2, 3, 1}});
  for (const BroadcastPattern& pattern : BroadcastPatterns()) {
    const Shape shape = *BroadcastShape(pattern.a, pattern.b);
    add("BroadcastTo", [=](const Inputs& x) { return ops::BroadcastTo(x[0], shape); },
        {pattern.a, pattern.b});
  }
  add("Slice", [](const Inputs& x) { return ops::Slice(x[0], 1, 1, 3); }, {{2, 4, 3}, {1, 3}});
  add("Slice", [](const Inputs& x) { return ops::Slice(x[0], -1, 2, 2); }, {{2, 3}});
  add("Split",
      [](const Inputs& x) {
        const std::vector<Tensor> parts = ops::Split(x[0], {1, 2}, 1);
        return parts[1] * parts[0];
      },
      {{2, 3, 4}, {1, 3}});
  add("Pad", [](const Inputs& x) { return ops::Pad(x[0], 1, 2, 1); }, {{2, 3, 2}, {1, 1}});
  add("IndexSelect",
      [](const Inputs& x) {
        return ops::IndexSelect(x[0], 1, Indices(x[0], {4}, {2, 0, 2, 2}));
      },
      {{2, 3}, {2, 3, 4}});
  add("Gather",
      [](const Inputs& x) {
        return ops::Gather(x[0], 0, Indices(x[0], {2, 3}, {1, 0, 2, 1, 0, 0}));
      },
      {{3, 3}});
  add("Gather",
      [](const Inputs& x) {
        return ops::Gather(x[0], -1, Indices(x[0], {2, 2}, {1, 1, 2, 0}));
      },
      {{2, 3}});
  for (int axis : {0, 1, -1}) {
    cases.push_back({"Concat",
                     [=](const Inputs& x) {
                       return ops::Concat({x[0], x[1], x[0]}, axis);
                     },
                     {{Draw({2, 2, 3}, 31, {}), Draw({2, 2, 3}, 32, {})}}});
  }
}

void AddMatmulCases(std::vector<OpCase>& cases) {
  const std::vector<BroadcastPattern> operands{
      {{2, 3}, {3, 4}},          {{1, 1}, {1, 1}},       {{5, 2, 3}, {3, 4}},
      {{2, 3}, {5, 3, 1}},       {{5, 2, 3}, {5, 3, 4}}, {{2, 1, 2, 3}, {3, 3, 4}},
      {{2, 3, 1, 2}, {3, 2, 1}}, {{1, 3, 2}, {4, 2, 3}}, {{2, 2, 3, 1, 2}, {2, 1, 1, 2, 3}},
  };
  OpCase matmul{"Matmul", [](const Inputs& x) { return ops::Matmul(x[0], x[1]); }, {}};
  for (const BroadcastPattern& pair : operands) {
    matmul.inputs.push_back({Draw(pair.a, 41, {}), Draw(pair.b, 42, {})});
  }
  cases.push_back(std::move(matmul));
}

void AddSoftmaxCases(std::vector<OpCase>& cases) {
  const std::vector<Shape> shapes{{2, 3, 4}, {1, 1, 1}, {2, 1, 35}, {1, 4, 33}};
  for (int axis : {0, 1, -1}) {
    cases.push_back(
        {"Softmax", [=](const Inputs& x) { return ops::Softmax(x[0], axis); }, Single(shapes)});
    cases.push_back({"LogSoftmax", [=](const Inputs& x) { return ops::LogSoftmax(x[0], axis); },
                     Single(shapes)});
  }
}

}  // namespace

const std::vector<BroadcastPattern>& BroadcastPatterns() {
  static const auto* const patterns = new std::vector<BroadcastPattern>{
      {{}, {}},         {{2, 3}, {2, 3}},    {{}, {2, 3}},        {{2, 3}, {}},
      {{1}, {5, 4}},    {{3}, {2, 3}},       {{1, 7}, {7}},       {{4, 1}, {1, 4}},
      {{2, 1}, {2, 3}}, {{2, 3, 4}, {3, 1}}, {{2, 1, 3}, {4, 1}}, {{2, 1, 4, 8}, {2, 1, 4, 1}},
  };
  return *patterns;
}

std::vector<OpCase> OpCases() {
  std::vector<OpCase> cases;
  AddUnaryCases(cases);
  AddBinaryCases(cases);
  AddReduceCases(cases);
  AddLayoutCases(cases);
  AddMatmulCases(cases);
  AddSoftmaxCases(cases);
  return cases;
}

}  // namespace tost
