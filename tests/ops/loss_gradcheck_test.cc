#include "autograd/gradcheck.h"
#include "gtest/gtest.h"
#include "ops/loss.h"

namespace tost::ops {
namespace {

Tensor Ids(Shape shape, std::vector<int32_t> ids) { return Tensor::FromHost(shape, ids); }

// Positive rows that add up to 1.
Tensor Distributions(Shape shape, uint64_t seed) {
  std::vector<double> p = RandomTensor(shape, seed, 0, 1).ToHost<double>();
  const size_t classes = static_cast<size_t>(shape[-1]);
  for (size_t row = 0; row < p.size(); row += classes) {
    double sum = 0;
    for (size_t j = 0; j < classes; ++j) sum += p[row + j];
    for (size_t j = 0; j < classes; ++j) p[row + j] /= sum;
  }
  return Tensor::FromHost(shape, p);
}

const CrossEntropyOptions kOptions[] = {
    {},
    {.reduction = Reduction::kSum},
    {.label_smoothing = 0.1, .reduction = Reduction::kSum},
    {.ignored_target = 3, .label_smoothing = 0.25, .reduction = Reduction::kMean},
};

TEST(CrossEntropyGradcheck, IdsSmoothingIgnoredAndMean) {
  for (const CrossEntropyOptions& options : kOptions) {
    const int32_t ignored = options.ignored_target;
    const GradcheckReport report = Gradcheck(
        [&](const std::vector<Tensor>& x) {
          return CrossEntropy(x[0], Ids({2, 2}, {0, ignored, 4, 2}), options);
        },
        {RandomTensor({2, 2, 5}, 3)});
    EXPECT_TRUE(report.passed()) << report.Table();
    // A single class, a single row.
    EXPECT_TRUE(Gradcheck(
                    [&](const std::vector<Tensor>& x) {
                      return CrossEntropy(x[0], Ids({1}, {0}), options);
                    },
                    {RandomTensor({1, 1}, 3)})
                    .passed());
  }
}

TEST(CrossEntropyGradcheck, Distributions) {
  for (Reduction reduction : {Reduction::kSum, Reduction::kMean}) {
    const Tensor p = Distributions({3, 6}, 5);
    const GradcheckReport report = Gradcheck(
        [&](const std::vector<Tensor>& x) { return SoftCrossEntropy(x[0], p, reduction); },
        {RandomTensor({3, 6}, 4)});
    EXPECT_TRUE(report.passed()) << report.Table();
  }
}

TEST(CrossEntropyGradcheck, FusedWithTheProjection) {
  for (const Shape& x : {Shape{1, 1}, Shape{2, 2, 3}}) {
    const std::vector<int32_t> ids =
        x.Rows() == 1 ? std::vector<int32_t>{4} : std::vector<int32_t>{0, -1, 4, 2};
    const GradcheckReport report = Gradcheck(
        [&](const std::vector<Tensor>& t) {
          return ProjectedCrossEntropy(t[0], t[1], Ids({x.Rows()}, ids));
        },
        {RandomTensor(x, 3), RandomTensor({5, x[-1]}, 4)});
    EXPECT_TRUE(report.passed()) << report.Table();
  }
}

}  // namespace
}  // namespace tost::ops
