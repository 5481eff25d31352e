#include <cmath>

#include "autograd/tape.h"
#include "gtest/gtest.h"
#include "ops/loss.h"

namespace tost {
namespace {

const ops::CrossEntropyOptions kSum = {.reduction = ops::Reduction::kSum};

// Two classes whose first has the loss −log p: logits (−log(eˡ − 1), 0).
float LogitOfLoss(double loss) { return static_cast<float>(-std::log(std::exp(loss) - 1)); }

// A micro-batch of rows with the given losses; loss 0 is a logit far above the other.
Tensor LogitsOf(const std::vector<double>& losses) {
  std::vector<float> logits;
  for (double loss : losses) {
    logits.push_back(loss > 0 ? LogitOfLoss(loss) : 1e4f);
    logits.push_back(0);
  }
  return Leaf(Tensor::FromHost<float>({static_cast<int64_t>(losses.size()), 2}, logits));
}

Tensor FirstClass(int64_t rows) {
  return Tensor::FromHost({rows}, std::vector<int32_t>(static_cast<size_t>(rows), 0));
}

TEST(T11, MicroBatchesOfUnequalSizeCountByTheirTargets) {
  const Tensor a = LogitsOf({4.0}), b = LogitsOf({0, 0, 0});
  double sum = 0;
  for (const Tensor& logits : {a, b}) {
    Tape tape;
    const Tensor loss = ops::CrossEntropy(logits, FirstClass(logits.shape()[0]), kSum);
    tape.Backward(loss, 1.0 / 4);
    sum += loss.Item();
  }
  EXPECT_FLOAT_EQ(static_cast<float>(sum / 4), 1.0f);

  // One batch of all four: the same loss, the same gradients.
  const Tensor all = LogitsOf({4.0, 0, 0, 0});
  Tape tape;
  const Tensor loss = ops::CrossEntropy(all, FirstClass(4), {.reduction = ops::Reduction::kMean});
  tape.Backward(loss);
  EXPECT_FLOAT_EQ(static_cast<float>(loss.Item()), 1.0f);
  std::vector<float> parts = a.grad()->value().ToHost();
  for (float g : b.grad()->value().ToHost()) parts.push_back(g);
  EXPECT_EQ(parts, all.grad()->value().ToHost());
}

TEST(T11, TheLossDoesNotDependOnTheNumberOfAccumulationSteps) {
  const std::vector<double> losses = {0.5, 1.5, 3, 0, 2, 1, 0.25, 4};
  std::vector<double> means;
  for (size_t steps : {1u, 2u, 4u, 8u}) {
    double sum = 0;
    const size_t rows = losses.size() / steps;
    for (size_t step = 0; step < steps; ++step) {
      const auto first = losses.begin() + static_cast<ptrdiff_t>(step * rows);
      const Tensor logits = LogitsOf({first, first + static_cast<ptrdiff_t>(rows)});
      sum += ops::CrossEntropy(logits, FirstClass(static_cast<int64_t>(rows)), kSum).Item();
    }
    means.push_back(sum / static_cast<double>(losses.size()));
  }
  // Float rounding of sums below 16.
  for (double mean : means) EXPECT_NEAR(mean, means[0], 1e-6);
}

}  // namespace
}  // namespace tost
