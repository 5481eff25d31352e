// Cross entropy in all its forms on the device.
#include <cmath>
#include <limits>
#include <vector>

#include "autograd/tape.h"
#include "gtest/gtest.h"
#include "ops/loss.h"
#include "tests/cuda/device_test.h"

namespace tost {
namespace {

constexpr DType kDTypes[] = {DType::kFloat64, DType::kFloat32, DType::kBFloat16};

// Sums of thousands of numbers in another order than on the CPU, and another exponential function;
// gradients of bfloat16 logits may fall on either side of a rounding.
double Tolerance(DType dtype) {
  if (dtype == DType::kFloat64) return 1e-12;
  return dtype == DType::kFloat32 ? 1e-5 : 2 * kBFloat16Epsilon;
}

struct Extents {
  int64_t rows, classes;
};
// One class, tails of packs, rows of a warp, rows longer than a block has threads, more rows than
// blocks have groups.
std::vector<Extents> AllExtents() {
  std::vector<Extents> all{{1, 1}, {5, 7}, {3, 40}, {2, 130}};
  if (!SmallShapesOnly()) all.insert(all.end(), {{300, 12}, {2, 2300}, {2, 2301}});
  return all;
}

// Targets that hit the first and the last class, and every third row is `ignored`.
Tensor Targets(const Extents& e, int32_t ignored) {
  std::vector<int32_t> ids(static_cast<size_t>(e.rows));
  for (size_t r = 0; r < ids.size(); ++r) {
    const auto classes = static_cast<size_t>(e.classes);
    ids[r] = r % 3 == 2 ? ignored : static_cast<int32_t>((r + 1) * (classes - 1) % classes);
  }
  return Tensor::FromHost({e.rows}, ids);
}

TEST(CrossEntropy, EqualsTheCpu) {
  const ops::CrossEntropyOptions all_options[] = {
      {}, {.ignored_target = -7, .label_smoothing = 0.1, .reduction = ops::Reduction::kSum}};
  for (const Extents& e : AllExtents()) {
    for (const DType dtype : kDTypes) {
      for (const ops::CrossEntropyOptions& options : all_options) {
        SCOPED_TRACE(testing::Message() << e.rows << " x " << e.classes << " " << Name(dtype));
        ExpectSameAsCpu([&](const auto& in) { return ops::CrossEntropy(in[0], in[1], options); },
                        {As(dtype, RandomTensor({e.rows, e.classes}, 1, -3, 3)),
                         Targets(e, options.ignored_target)},
                        Tolerance(dtype));
      }
    }
  }
  const Tensor targets = Targets({4, 5}, -1);
  ExpectGradcheck(
      [&](const auto& in) {
        return ops::CrossEntropy(in[0], OnCuda(targets), {.label_smoothing = 0.1});
      },
      {RandomTensor({4, 5}, 1)});
}

TEST(SoftCrossEntropy, EqualsTheCpu) {
  const auto loss = [](const std::vector<Tensor>& in) {
    return ops::SoftCrossEntropy(in[0], in[1].Detached());
  };
  for (const Extents& e : AllExtents()) {
    for (const DType dtype : kDTypes) {
      SCOPED_TRACE(testing::Message() << e.rows << " x " << e.classes << " " << Name(dtype));
      ExpectSameAsCpu(loss,
                      {As(dtype, RandomTensor({e.rows, e.classes}, 1, -3, 3)),
                       As(AccumulateDType(dtype), RandomTensor({e.rows, e.classes}, 2, 0, 1))},
                      Tolerance(dtype));
    }
  }
  const Tensor probabilities = RandomTensor({4, 5}, 2, 0, 1);
  ExpectGradcheck(
      [&](const auto& in) { return ops::SoftCrossEntropy(in[0], OnCuda(probabilities)); },
      {RandomTensor({4, 5}, 1)});
}

// The emulated device takes 1024 logits at a time: the larger case has many chunks, with a tail.
TEST(ProjectedCrossEntropy, EqualsTheCpu) {
  const auto loss = [](const std::vector<Tensor>& in) {
    return ops::ProjectedCrossEntropy(in[0], in[1], in[2]);
  };
  for (const Extents& e : {Extents{1, 1}, Extents{7, 24}, Extents{67, 41}}) {
    for (const DType dtype : {DType::kFloat64, DType::kFloat32}) {
      SCOPED_TRACE(testing::Message() << e.rows << " x " << e.classes << " " << Name(dtype));
      ExpectSameAsCpu(loss,
                      {As(dtype, RandomTensor({e.rows, 6}, 1)),
                       As(dtype, RandomTensor({e.classes, 6}, 2)), Targets(e, -1)},
                      Tolerance(dtype));
    }
  }
  const Tensor targets = Targets({4, 5}, -1);
  ExpectGradcheck(
      [&](const auto& in) { return ops::ProjectedCrossEntropy(in[0], in[1], OnCuda(targets)); },
      {RandomTensor({4, 3}, 1), RandomTensor({5, 3}, 2)});
}

// A parameter's float32 gradient meets bfloat16 activations.
TEST(ProjectedCrossEntropy, BFloat16EqualsTheCpu) {
  const Extents e{67, 41};
  const Tensor x = As(DType::kBFloat16, RandomTensor({e.rows, 6}, 1));
  const Tensor w = As(DType::kBFloat16, RandomTensor({e.classes, 6}, 2));
  ExpectSameAsCpu([](const auto& in) { return ops::ProjectedCrossEntropy(in[0], in[1], in[2]); },
                  {x, w, Targets(e, -1)}, 4 * kBFloat16Epsilon);
}

// The loss is no number, and of the gradient of [rows, width] no number of the second row is one.
void ExpectSecondRowIsNotANumber(const Tensor& loss, const Tensor& leaf, Tape& tape) {
  tape.Backward(loss);
  EXPECT_TRUE(std::isnan(loss.Item()));
  const auto width = static_cast<size_t>(leaf.shape()[-1]);
  const std::vector<double> gradient = leaf.grad()->value().ToHost<double>();
  for (size_t i = 0; i < gradient.size(); ++i) {
    EXPECT_EQ(std::isnan(gradient[i]), i / width == 1) << i;
  }
}

// A kernel cannot stop the program for a wrong target: its loss and gradient say so.
TEST(CrossEntropy, TargetsOutOfRangeAreNotNumbers) {
  for (const int32_t wrong : {5, -2, std::numeric_limits<int32_t>::max()}) {
    SCOPED_TRACE(wrong);
    const Tensor targets = OnCuda(Tensor::FromHost<int32_t>({3}, {1, wrong, -1}));
    const Tensor x = Leaf(OnCuda(As(DType::kFloat32, RandomTensor({3, 5}, 1))));
    {
      Tape tape;
      ExpectSecondRowIsNotANumber(
          ops::CrossEntropy(x, targets, {.reduction = ops::Reduction::kSum}), x, tape);
    }
    const Tensor y = Leaf(OnCuda(As(DType::kFloat32, RandomTensor({3, 4}, 1))));
    const Tensor w = OnCuda(As(DType::kFloat32, RandomTensor({5, 4}, 2)));
    Tape tape;
    ExpectSecondRowIsNotANumber(ops::ProjectedCrossEntropy(y, w, targets), y, tape);
  }
}

TEST(CrossEntropy, LargeAndInfiniteLogits) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Tensor logits = Tensor::FromHost<double>(
      {4, 3}, {1e4, -1e4, 0, -kInfinity, 2, 1, 80000, 80000.5, -3, 0, -kInfinity, -kInfinity});
  const Tensor targets = Tensor::FromHost<int32_t>({4}, {0, 1, 1, 0});
  for (const DType dtype : {DType::kFloat64, DType::kFloat32}) {
    ExpectSameAsCpu([](const auto& in) { return ops::CrossEntropy(in[0], in[1]); },
                    {As(dtype, logits), targets}, Tolerance(dtype));
  }
}

TEST(SumLosses, AddsIntoFloat64) {
  const Tensor losses = As(DType::kFloat32, RandomTensor({SmallShapesOnly() ? 300 : 3000}, 1));
  Tensor expected = Tensor::FromHost<double>({}, {0.25});
  ops::SumLosses(losses, 0.5, /*add=*/true, expected);
  ForEachThreadOrder([&](const std::string& order) {
    SCOPED_TRACE(order);
    Tensor total = OnCuda(Tensor::FromHost<double>({}, {0.25}));
    ops::SumLosses(OnCuda(losses), 0.5, /*add=*/true, total);
    EXPECT_NEAR(total.Item(), expected.Item(), 1e-12);
  });
}

}  // namespace
}  // namespace tost
