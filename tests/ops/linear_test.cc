// Linear and LinearGelu: the formula in loops, dtypes, messages, independence of
// threads.
#include "ops/linear.h"

#include <cmath>
#include <vector>

#include "autograd/base/parallel.h"
#include "autograd/gradcheck.h"
#include "autograd/tape.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tost::ops {
namespace {

using ::testing::HasSubstr;

// Float sums of k products of values below 1 in magnitude, in any order: 2⁻²⁴ · k at worst.
constexpr double kFloatTolerance = 1e-5;
// One bfloat16 rounding (2⁻⁸) of results below 4.
constexpr double kBf16Tolerance = 4.0 / 256;

double Gelu(double u) { return 0.5 * u * (1 + std::erf(u / std::sqrt(2.0))); }

std::vector<double> LinearByLoops(const Tensor& x, const Tensor& w, const Tensor& b) {
  const std::vector<double> xs = x.ToHost<double>(), ws = w.ToHost<double>();
  const std::vector<double> bs = b.defined() ? b.ToHost<double>() : std::vector<double>();
  const int64_t rows = x.shape().Rows(), in = w.shape()[1], out = w.shape()[0];
  std::vector<double> y;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t o = 0; o < out; ++o) {
      double sum = b.defined() ? bs[static_cast<size_t>(o)] : 0;
      for (int64_t i = 0; i < in; ++i) {
        sum += xs[static_cast<size_t>(r * in + i)] * ws[static_cast<size_t>(o * in + i)];
      }
      y.push_back(sum);
    }
  }
  return y;
}

void ExpectNear(const std::vector<double>& actual, const std::vector<double>& expected,
                double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i])))
        << "element " << i;
  }
}

TEST(Linear, EqualsLoops) {
  for (const int64_t rows : {1, 3, 8, 9, 130, 700}) {
    for (const int64_t out : {1, 65, 384}) {
      const Tensor x = Converted(RandomTensor({rows, 96}, 1), DType::kFloat32);
      const Tensor w = Converted(RandomTensor({out, 96}, 2), DType::kFloat32);
      const Tensor b = Converted(RandomTensor({out}, 3), DType::kFloat32);
      ExpectNear(Linear(x, w, b).ToHost<double>(), LinearByLoops(x, w, b), kFloatTolerance);
      ExpectNear(Linear(x, w).ToHost<double>(), LinearByLoops(x, w, {}), kFloatTolerance);
    }
  }
}

TEST(Linear, GeluEqualsLoops) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
    const Tensor x = Converted(RandomTensor({2, 40, 33}, 1), dtype);
    const Tensor w = Converted(RandomTensor({70, 33}, 2, -0.5, 0.5), dtype);
    const Tensor b = Converted(RandomTensor({70}, 3), AccumulateDType(dtype));
    std::vector<double> expected = LinearByLoops(x, w, b);
    for (double& u : expected) u = Gelu(u);
    const double tolerance = dtype == DType::kBFloat16 ? kBf16Tolerance : kFloatTolerance;
    ExpectNear(LinearGelu(x, w, b).ToHost<double>(), expected, tolerance);
  }
}

TEST(Linear, Bf16WeightGradientIsFloat32InTheMasterCell) {
  const Tensor x = Converted(RandomTensor({40, 6}, 1), DType::kBFloat16);
  const Tensor master = Leaf(Converted(RandomTensor({5, 6}, 2), DType::kFloat32));
  const Tensor w = Converted(master, DType::kBFloat16).WithGrad(master.grad());
  const Tensor b = Leaf(Tensor::Zeros({5}, DType::kFloat32));
  const Tensor dy = Converted(RandomTensor({40, 5}, 3), DType::kBFloat16);
  Tape tape;
  const Tensor y = Linear(x, w, b);
  EXPECT_EQ(y.dtype(), DType::kBFloat16);
  tape.BackwardFrom(y, dy);
  const Tensor& dw = master.grad()->value();
  ASSERT_EQ(dw.dtype(), DType::kFloat32);
  const std::vector<double> xs = x.ToHost<double>(), ds = dy.ToHost<double>();
  const std::vector<double> got = dw.ToHost<double>(), db = b.grad()->value().ToHost<double>();
  for (size_t o = 0; o < 5; ++o) {
    double bias = 0;
    for (size_t r = 0; r < 40; ++r) bias += ds[r * 5 + o];
    EXPECT_NEAR(db[o], bias, kFloatTolerance * 10);
    for (size_t i = 0; i < 6; ++i) {
      double sum = 0;
      for (size_t r = 0; r < 40; ++r) sum += ds[r * 5 + o] * xs[r * 6 + i];
      EXPECT_NEAR(got[o * 6 + i], sum, kFloatTolerance * 10);
    }
  }
}

TEST(Linear, Bf16ActivationGradientIsBf16) {
  const Tensor x = Leaf(Converted(RandomTensor({9, 16}, 1), DType::kBFloat16));
  const Tensor w = Converted(RandomTensor({12, 16}, 2, -0.5, 0.5), DType::kBFloat16);
  const Tensor dy = Converted(RandomTensor({9, 12}, 3), DType::kBFloat16);
  Tape tape;
  tape.BackwardFrom(Linear(x, w), dy);
  const Tensor& dx = x.grad()->value();
  ASSERT_EQ(dx.dtype(), DType::kBFloat16);
  // dx = dy w = Linear(dy, wᵀ).
  std::vector<double> ws = w.ToHost<double>(), turned;
  for (size_t i = 0; i < 16; ++i) {
    for (size_t o = 0; o < 12; ++o) turned.push_back(ws[o * 16 + i]);
  }
  ExpectNear(dx.ToHost<double>(), LinearByLoops(dy, Tensor::FromHost<double>({16, 12}, turned), {}),
             kBf16Tolerance);
}

TEST(Linear, SameBitsWithAnyNumberOfThreads) {
  auto run = [](int threads) {
    const int before = ThreadCount();
    SetThreadCount(threads);
    const Tensor x = Leaf(Converted(RandomTensor({2, 300, 128}, 1), DType::kFloat32));
    const Tensor w = Leaf(Converted(RandomTensor({200, 128}, 2), DType::kFloat32));
    const Tensor b = Leaf(Converted(RandomTensor({200}, 3), DType::kFloat32));
    Tape tape;
    const Tensor y = LinearGelu(x, w, b);
    tape.BackwardFrom(y, Converted(RandomTensor(y.shape(), 4), DType::kFloat32));
    SetThreadCount(before);
    return std::vector<std::vector<float>>{y.ToHost(), x.grad()->value().ToHost(),
                                           w.grad()->value().ToHost(), b.grad()->value().ToHost()};
  };
  const auto one = run(1);
  EXPECT_EQ(run(2), one);
  EXPECT_EQ(run(5), one);
}

TEST(LinearShape, NamesTheRuleAndTheValues) {
  EXPECT_EQ(*LinearShape({8, 1024, 512}, {768, 512}), (Shape{8, 1024, 768}));
  EXPECT_EQ(LinearShape({8, 1024, 512}, {768, 768}).status().message(),
            "Linear: x has 512 columns but w expects 768 (x [8, 1024, 512], w [768, 768])");
  EXPECT_THAT(LinearShape({3}, {4}).status().message(), HasSubstr("w exactly two"));
  EXPECT_THAT(LinearShape({2, 3}, {4, 3}, Shape{3}).status().message(),
              HasSubstr("b is [3] but w gives 4 columns"));
}

TEST(Linear, KeepsOnlyWhatBackwardNeeds) {
  const Tensor x = Leaf(Converted(RandomTensor({256, 64}, 1), DType::kFloat32));
  const Tensor w = Leaf(Converted(RandomTensor({64, 64}, 2), DType::kFloat32));
  DeviceRuntime& runtime = RuntimeOf(Device::Cpu());
  Tape tape;
  const int64_t before = runtime.Memory().live_bytes;
  { const Tensor y = Linear(x, w); }
  EXPECT_EQ(runtime.Memory().live_bytes, before);
  { const Tensor y = LinearGelu(x, w); }
  EXPECT_EQ(runtime.Memory().live_bytes, before + 256 * 64 * 4);  // the pre-activation
}

}  // namespace
}  // namespace tost::ops
