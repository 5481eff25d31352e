#include "ops/elementwise.h"

#include <cmath>
#include <limits>
#include <vector>

#include "autograd/base/parallel.h"
#include "autograd/gradcheck.h"
#include "autograd/tape.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/reduce.h"

namespace tost::ops {
namespace {

using testing::ElementsAre;
using testing::IsNan;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Tensor Vector(const std::vector<double>& values) {
  return Tensor::FromHost({static_cast<int64_t>(values.size())}, values);
}

// The gradient of Σ fn(x).
template <class Fn>
std::vector<double> GradientOfSum(const Fn& fn, const Tensor& x) {
  const Tensor leaf = Leaf(x);
  Tape tape;
  tape.Backward(Sum(fn(leaf)));
  return leaf.grad()->value().ToHost<double>();
}

TEST(Arithmetic, ReadsLikeTheFormula) {
  const Tensor x = Vector({1, 2}), y = Vector({3, 5});
  EXPECT_THAT((x * 2 + y).ToHost<double>(), ElementsAre(5, 9));
  EXPECT_THAT((1 - x / y).ToHost<double>(), ElementsAre(1 - 1.0 / 3, 1 - 2.0 / 5));
  EXPECT_THAT((-x - 1).ToHost<double>(), ElementsAre(-2, -3));
  EXPECT_THAT((6 / x * (y - x)).ToHost<double>(), ElementsAre(12, 9));
}

TEST(Arithmetic, DivisionByAScalarIsADivision) {
  EXPECT_THAT((Vector({49, 5}) / 49).ToHost<double>(), ElementsAre(1, 5.0 / 49));
}

// The element of `x` that broadcasting puts at `index` of a result of shape `shape`.
double ElementAt(const Tensor& x, const std::vector<double>& values, const Shape& shape,
                 int64_t index) {
  const Shape strides = BroadcastStrides(x.shape(), shape);
  int64_t offset = 0;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    offset += index % shape[axis] * strides[axis];
    index /= shape[axis];
  }
  return values[static_cast<size_t>(offset)];
}

TEST(Broadcasting, EveryElementMeetsItsPartner) {
  const std::vector<std::pair<Shape, Shape>> pairs{{{}, {3}},
                                                   {{1}, {5, 4}},
                                                   {{4, 1}, {1, 4}},
                                                   {{2, 1, 4, 8}, {2, 1, 4, 1}},
                                                   {{3, 700, 2}, {700, 1}},
                                                   {{2, 1, 5, 1, 3, 2}, {4, 1, 7, 1, 2}},
                                                   {{40000}, {1}},
                                                   {{50, 1000}, {1000}},
                                                   {{50, 1000}, {50, 1}},
                                                   {{2, 0, 3}, {3}}};
  for (const auto& [a_shape, b_shape] : pairs) {
    const Tensor a = RandomTensor(a_shape, 1), b = RandomTensor(b_shape, 2);
    const std::vector<double> av = a.ToHost<double>(), bv = b.ToHost<double>();
    const Tensor y = a - b;
    const std::vector<double> yv = y.ToHost<double>();
    for (int64_t i = 0; i < y.numel(); ++i) {
      ASSERT_EQ(yv[static_cast<size_t>(i)],
                ElementAt(a, av, y.shape(), i) - ElementAt(b, bv, y.shape(), i))
          << a_shape << " " << b_shape << " at " << i;
    }
  }
}

TEST(Broadcasting, MismatchNamesTheOpAndTheShapes) {
  const absl::StatusOr<Shape> shape = ElementwiseShape("Multiply", {2, 3}, {4});
  EXPECT_EQ(shape.status().message(),
            "Multiply: shapes [2, 3] and [4] do not broadcast: extents 3 and 4");
  EXPECT_EQ(*ElementwiseShape("Add", {2, 1}, {4}), (Shape{2, 4}));
  const Tensor a = RandomTensor({2, 3}, 1), b = RandomTensor({4}, 2);
  EXPECT_DEATH(a + b, "Add: shapes");
  EXPECT_DEATH(Maximum(a, b), "Maximum: shapes");
  EXPECT_DEATH(Where(b, a, a), "Where: shapes");
}

TEST(Elementwise, DtypesDoNotMix) {
  const Tensor x = Vector({1}), y = Converted(x, DType::kBFloat16);
  EXPECT_DEATH(x * y, "Multiply: dtypes differ: float64 and bfloat16");
  EXPECT_DEATH(Where(y, x, x), "Where: dtypes differ: bfloat16, float64 and float64");
  EXPECT_DEATH(Exp(Tensor::FromHost({1}, std::vector<int32_t>{1})), "expected a floating type");
}

TEST(Elementwise, ValuesInDouble) {
  const double x = 0.7;
  auto at = [&](Tensor (*fn)(const Tensor&)) { return fn(Vector({x})).Item(); };
  EXPECT_DOUBLE_EQ(at(Exp), std::exp(x));
  EXPECT_DOUBLE_EQ(at(Log), std::log(x));
  EXPECT_DOUBLE_EQ(at(Sqrt), std::sqrt(x));
  EXPECT_DOUBLE_EQ(at(Rsqrt), 1 / std::sqrt(x));
  EXPECT_DOUBLE_EQ(at(Square), x * x);
  EXPECT_DOUBLE_EQ(at(Sigmoid), 1 / (1 + std::exp(-x)));
  EXPECT_DOUBLE_EQ(at(Tanh), std::tanh(x));
  EXPECT_DOUBLE_EQ(at(Gelu), 0.5 * x * (1 + std::erf(x / std::sqrt(2))));
  EXPECT_DOUBLE_EQ(at(GeluTanh),
                   0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))));
  EXPECT_DOUBLE_EQ(Pow(Vector({x}), 2.5).Item(), std::pow(x, 2.5));
  EXPECT_DOUBLE_EQ(Pow(Vector({x}), Vector({-1.5})).Item(), std::pow(x, -1.5));
  EXPECT_THAT(Abs(Vector({-2, 0, 3})).ToHost<double>(), ElementsAre(2, 0, 3));
  EXPECT_THAT(Relu(Vector({-2, 0, 3})).ToHost<double>(), ElementsAre(0, 0, 3));
  EXPECT_THAT(Clamp(Vector({-2, 0, 3}), -1, 2).ToHost<double>(), ElementsAre(-1, 0, 2));
}

TEST(Elementwise, FloatAgreesWithDouble) {
  // ops/cpu/simd_math.h promises 2 ulp, GELU 2e-7 · max(1, |x|); |x| ≤ 4 here.
  constexpr double kTolerance = 1e-6;
  const Tensor x = RandomTensor({3, 700}, 5, -4, 4);
  const Tensor narrow = Converted(x, DType::kFloat32);
  for (auto fn : {&Exp, &Sigmoid, &Tanh, &Gelu, &GeluTanh, &Square, &Abs, &Relu}) {
    const std::vector<double> expected = fn(Converted(narrow, DType::kFloat64)).ToHost<double>();
    const std::vector<double> actual = fn(narrow).ToHost<double>();
    for (size_t i = 0; i < actual.size(); ++i) {
      ASSERT_NEAR(actual[i], expected[i], kTolerance * std::max(1.0, std::abs(expected[i])));
    }
  }
}

TEST(Elementwise, BFloat16RoundsOnce) {
  const Tensor x = Converted(RandomTensor({1000}, 6), DType::kBFloat16);
  const Tensor y = Converted(RandomTensor({1000}, 7), DType::kBFloat16);
  const std::vector<float> a = x.ToHost(), b = y.ToHost(), product = (x * y).ToHost();
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(product[i], static_cast<float>(bfloat16(a[i] * b[i])));
  }
}

TEST(Elementwise, NanStaysNan) {
  const Tensor x = Vector({kNan}), one = Vector({1});
  for (const Tensor& y : {Relu(x), Abs(x), Clamp(x, -1, 1), Maximum(x, one), Maximum(one, x),
                          Minimum(x, one), Minimum(one, x), Tanh(x), x * 0}) {
    EXPECT_THAT(y.Item(), IsNan());
  }
}

TEST(Elementwise, SlopesAtZero) {
  const Tensor zero = Vector({0});
  auto slope = [&](auto fn) { return GradientOfSum(fn, zero)[0]; };
  EXPECT_EQ(slope([](const Tensor& x) { return Abs(x); }), 0);
  EXPECT_EQ(slope([](const Tensor& x) { return Relu(x); }), 0);
  EXPECT_EQ(slope([](const Tensor& x) { return Sqrt(x); }), kInfinity);
  EXPECT_EQ(slope([](const Tensor& x) { return Pow(x, 2); }), 0);
  EXPECT_EQ(slope([](const Tensor& x) { return Pow(x, 1); }), 1);
  EXPECT_EQ(slope([](const Tensor& x) { return Pow(x, 0); }), 0);
  EXPECT_EQ(slope([](const Tensor& x) { return Pow(x, Vector({2})); }), 0);
  EXPECT_EQ(GradientOfSum([&](const Tensor& y) { return Pow(zero, y); }, Vector({2}))[0], 0);
}

TEST(Clamp, SlopeIsOneOnTheClosedInterval) {
  EXPECT_THAT(
      GradientOfSum([](const Tensor& x) { return Clamp(x, -1, 1); }, Vector({-2, -1, 0, 1, 2})),
      ElementsAre(0, 1, 1, 1, 0));
  EXPECT_DEATH(Clamp(Vector({0}), 1, -1), "Clamp: the bounds \\[1, -1\\] are empty");
}

TEST(Maximum, TiesShareTheGradient) {
  const Tensor a = Leaf(Vector({1, 2, 3})), b = Leaf(Vector({2, 2, 2}));
  Tape tape;
  tape.Backward(Sum(Maximum(a, b) + 10 * Minimum(a, b)));
  EXPECT_THAT(a.grad()->value().ToHost<double>(), ElementsAre(10, 5.5, 1));
  EXPECT_THAT(b.grad()->value().ToHost<double>(), ElementsAre(1, 5.5, 10));
}

TEST(Comparisons, AreZeroOrOneAndConstant) {
  const Tensor a = Leaf(Vector({1, 2, 3, kNan})), b = Vector({2});
  Tape tape;
  EXPECT_THAT(Less(a, b).ToHost<double>(), ElementsAre(1, 0, 0, 0));
  EXPECT_THAT(LessEqual(a, b).ToHost<double>(), ElementsAre(1, 1, 0, 0));
  EXPECT_THAT(Greater(a, b).ToHost<double>(), ElementsAre(0, 0, 1, 0));
  EXPECT_THAT(GreaterEqual(a, b).ToHost<double>(), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(Equal(a, b).ToHost<double>(), ElementsAre(0, 1, 0, 0));
  EXPECT_EQ(Less(a, b).grad(), nullptr);
  EXPECT_EQ(tape.node_count(), 0u);
}

TEST(Where, TakesNothingFromTheOtherSide) {
  const Tensor a = Leaf(Vector({1, kNan})), b = Leaf(Vector({kNan, 4}));
  Tape tape;
  const Tensor y = Where(Vector({1, 0}), a, b);
  EXPECT_THAT(y.ToHost<double>(), ElementsAre(1, 4));
  tape.Backward(Sum(y));
  EXPECT_THAT(a.grad()->value().ToHost<double>(), ElementsAre(1, 0));
  EXPECT_THAT(b.grad()->value().ToHost<double>(), ElementsAre(0, 1));
}

TEST(Cast, GradientComesBackInTheOperandsDtype) {
  const Tensor x = Leaf(Tensor::FromHost({2}, std::vector<float>{1, 3}));
  Tape tape;
  const Tensor y = Cast(x, DType::kBFloat16);
  EXPECT_EQ(y.dtype(), DType::kBFloat16);
  tape.Backward(Sum(Cast(y * y, DType::kFloat64)));
  EXPECT_EQ(x.grad()->value().dtype(), DType::kFloat32);
  EXPECT_THAT(x.grad()->value().ToHost(), ElementsAre(2, 6));
}

// A bfloat16 copy of a parameter shares the float32 gradient of its master value.
TEST(Elementwise, BFloat16OperandMayHaveAFloat32Gradient) {
  const Tensor master = Leaf(Tensor::FromHost({2}, std::vector<float>{1, 3}));
  const Tensor copy = Converted(master, DType::kBFloat16).WithGrad(master.grad());
  const Tensor x = Converted(Vector({1, 2, 3, 4}), DType::kBFloat16).Reshaped({2, 2});
  Tape tape;
  tape.Backward(Sum(x * copy + copy + Exp(copy * 0)));
  EXPECT_THAT(master.grad()->value().ToHost(), ElementsAre(6, 8));
}

TEST(Elementwise, AnOperandUsedTwiceGathersBothGradients) {
  const Tensor x = Leaf(Vector({3}));
  auto gradient = [&](const auto& fn) {
    x.grad()->Reset();
    Tape tape;
    tape.Backward(fn(x * 1));
    return x.grad()->value().Item();
  };
  EXPECT_EQ(gradient([](const Tensor& y) { return y + y; }), 2);
  EXPECT_EQ(gradient([](const Tensor& y) { return y - y; }), 0);
  EXPECT_EQ(gradient([](const Tensor& y) { return y * y; }), 6);
  EXPECT_EQ(gradient([](const Tensor& y) { return y.Reshaped({1, 1}) + y; }), 2);
  EXPECT_EQ(gradient([](const Tensor& y) { return y - y.Reshaped({1, 1}); }), 0);
}

TEST(Elementwise, MultiplyByAConstantKeepsNoActivation) {
  const Tensor x = Leaf(RandomTensor({1000}, 1));
  const Tensor constant = RandomTensor({1000}, 2);
  Tape tape;
  // The sum's result holds the only other handle on the product's input.
  Tensor y = x + constant;
  const Tensor z = y * constant;
  EXPECT_TRUE(y.UniquelyOwned());
}

TEST(Elementwise, BitsDoNotDependOnTheNumberOfThreads) {
  const Tensor a = Converted(RandomTensor({300, 1, 70}, 1), DType::kFloat32);
  const Tensor b = Converted(RandomTensor({30, 1}, 2), DType::kFloat32);
  auto run = [&](int threads) {
    const int before = ThreadCount();
    SetThreadCount(threads);
    const Tensor x = Leaf(a), y = Leaf(b);
    Tape tape;
    const Tensor z = Gelu(x * y);
    tape.Backward(Sum(z * z));
    SetThreadCount(before);
    return std::vector{z.ToHost(), x.grad()->value().ToHost(), y.grad()->value().ToHost()};
  };
  const auto one = run(1);
  EXPECT_EQ(run(2), one);
  EXPECT_EQ(run(5), one);
}

}  // namespace
}  // namespace tost::ops
