// Conv2d: the formula in loops, gradients, messages, independence of threads.
#include "ops/conv2d.h"

#include <vector>

#include "autograd/base/parallel.h"
#include "autograd/gradcheck.h"
#include "autograd/tape.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tost::ops {
namespace {

using ::testing::HasSubstr;

struct Case {
  Shape x, w;
  Conv2dOptions options;
};

// The stem's convolution on even and odd pictures, a patch projection, one without overlap or
// padding, windows that hardly fit.
const std::vector<Case> kCases = {
    {{2, 8, 6, 3}, {4, 3, 3, 3}, {.stride = 2, .padding = 1}},
    {{1, 7, 5, 2}, {3, 2, 3, 3}, {.stride = 2, .padding = 1}},
    {{2, 8, 8, 3}, {5, 3, 4, 4}, {.stride = 4}},
    {{1, 6, 4, 1}, {2, 1, 3, 3}, {.stride = 1, .padding = 2}},
    {{1, 9, 9, 2}, {2, 2, 2, 2}, {.stride = 3}},
    {{3, 1, 1, 4}, {2, 4, 3, 3}, {.stride = 2, .padding = 1}},
};

std::vector<double> ByLoops(const Case& c) {
  const Conv2dDims d = *Conv2dShape(c.x, c.w, c.options);
  const std::vector<double> x = RandomTensor(c.x, 1).ToHost<double>();
  const std::vector<double> w = RandomTensor(c.w, 2).ToHost<double>();
  std::vector<double> y;
  for (int64_t b = 0; b < d.batch; ++b) {
    for (int64_t i = 0; i < d.out_height; ++i) {
      for (int64_t j = 0; j < d.out_width; ++j) {
        for (int64_t o = 0; o < d.out_channels; ++o) {
          double sum = 0;
          for (int64_t u = 0; u < d.kernel; ++u) {
            for (int64_t v = 0; v < d.kernel; ++v) {
              const int64_t h = i * d.stride + u - d.padding, at = j * d.stride + v - d.padding;
              if (h < 0 || h >= d.height || at < 0 || at >= d.width) continue;
              for (int64_t k = 0; k < d.channels; ++k) {
                const int64_t pixel = ((b * d.height + h) * d.width + at) * d.channels + k;
                const int64_t weight = ((o * d.channels + k) * d.kernel + u) * d.kernel + v;
                sum += x[static_cast<size_t>(pixel)] * w[static_cast<size_t>(weight)];
              }
            }
          }
          y.push_back(sum);
        }
      }
    }
  }
  return y;
}

void ExpectNear(const std::vector<double>& actual, const std::vector<double>& expected,
                double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance) << "element " << i;
  }
}

TEST(Conv2d, EqualsLoops) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(absl::StrCat(c.x.ToString(), " ", c.w.ToString()));
    const std::vector<double> expected = ByLoops(c);
    const Tensor x = RandomTensor(c.x, 1), w = RandomTensor(c.w, 2);
    ExpectNear(Conv2d(x, w, c.options).ToHost<double>(), expected, 1e-12);
    // 48 products of values below 1, rounded at each addition.
    ExpectNear(Conv2d(Converted(x, DType::kFloat32), Converted(w, DType::kFloat32), c.options)
                   .ToHost<double>(),
               expected, 1e-5);
    // Operands and result rounded once, 2⁻⁹ of sums of products below 48.
    ExpectNear(Conv2d(Converted(x, DType::kBFloat16), Converted(w, DType::kBFloat16), c.options)
                   .ToHost<double>(),
               expected, 0.1);
  }
}

TEST(Conv2d, Gradients) {
  for (const Case& c : kCases) {
    const GradcheckReport report =
        Gradcheck([&](const std::vector<Tensor>& t) { return Conv2d(t[0], t[1], c.options); },
                  {RandomTensor(c.x, 1), RandomTensor(c.w, 2)});
    EXPECT_TRUE(report.passed()) << c.x << "\n" << report.Table();
  }
}

TEST(Conv2d, Bf16WeightGradientIsFloat32InTheMasterCell) {
  const Case& c = kCases[0];
  const Tensor x = Converted(RandomTensor(c.x, 1), DType::kBFloat16);
  const Tensor master = Leaf(Converted(RandomTensor(c.w, 2), DType::kFloat32));
  const Tensor w = Converted(master, DType::kBFloat16).WithGrad(master.grad());
  Tape tape;
  const Tensor y = Conv2d(x, w, c.options);
  tape.BackwardFrom(y, Converted(RandomTensor(y.shape(), 3), y.dtype()));
  EXPECT_EQ(master.grad()->value().dtype(), DType::kFloat32);
  EXPECT_EQ(master.grad()->value().shape(), c.w);
}

TEST(Conv2d, BitsDoNotDependOnThreads) {
  const Tensor x = Converted(RandomTensor({4, 33, 31, 24}, 1), DType::kFloat32);
  std::vector<std::vector<float>> results;
  const int before = ThreadCount();
  for (const int threads : {1, 2, 3}) {
    SetThreadCount(threads);
    const Tensor input = Leaf(x),
                 w = Leaf(Converted(RandomTensor({48, 24, 3, 3}, 2), DType::kFloat32));
    Tape tape;
    const Tensor y = Conv2d(input, w, {.stride = 2, .padding = 1});
    tape.BackwardFrom(y, Converted(RandomTensor(y.shape(), 3), DType::kFloat32));
    results.push_back(y.ToHost());
    for (const Tensor& gradient : {input.grad()->value(), w.grad()->value()}) {
      const std::vector<float> values = gradient.ToHost();
      results.back().insert(results.back().end(), values.begin(), values.end());
    }
  }
  SetThreadCount(before);
  EXPECT_TRUE(results[0] == results[1] && results[1] == results[2]);
}

TEST(Conv2d, ShapesThatDoNotFitAreNamed) {
  auto message = [](const Shape& x, const Shape& w, const Conv2dOptions& options) {
    return std::string(Conv2dShape(x, w, options).status().message());
  };
  EXPECT_THAT(message({2, 8, 3}, {4, 3, 3, 3}, {}), HasSubstr("four axes"));
  EXPECT_THAT(message({2, 8, 8, 4}, {4, 3, 3, 3}, {}), HasSubstr("4 channels but w reads 3"));
  EXPECT_THAT(message({2, 8, 8, 3}, {4, 3, 3, 2}, {}), HasSubstr("square"));
  EXPECT_THAT(message({2, 2, 8, 3}, {4, 3, 3, 3}, {}), HasSubstr("larger than the padded x"));
}

}  // namespace
}  // namespace tost::ops
