// Statement D24: mixing augmentations work for a final batch of 1 and for odd batches.
#include <algorithm>
#include <numeric>
#include <vector>

#include "data/mixing.h"
#include "gtest/gtest.h"

namespace tost::data {
namespace {

constexpr int64_t kExtent = 6, kClasses = 3;
// Four roundings of numbers below 1.
constexpr float kSumBound = 4e-7f;

struct Batch {
  std::vector<float> images;
  std::vector<int32_t> labels;
};

// Row i has the value i everywhere, and class i mod 3.
Batch BatchOf(int64_t count) {
  Batch batch;
  for (int64_t i = 0; i < count; ++i) {
    batch.images.insert(batch.images.end(), kExtent * kExtent * 3, static_cast<float>(i));
    batch.labels.push_back(static_cast<int32_t>(i % kClasses));
  }
  return batch;
}

// Mixes row i with row count - 1 - i, as the official recipe does.
void Check(const Mixing& mixing, int64_t count) {
  SCOPED_TRACE(testing::Message() << count << " rows, kind " << static_cast<int>(mixing.kind));
  Batch batch = BatchOf(count);
  std::vector<int64_t> partners(static_cast<size_t>(count));
  std::iota(partners.rbegin(), partners.rend(), 0);
  const std::vector<int32_t> partner_labels(batch.labels.rbegin(), batch.labels.rend());
  MixImages(mixing, partners, kExtent, kExtent, batch.images);
  const std::vector<float> targets =
      MixedTargets(mixing.lambda, 0.1f, kClasses, batch.labels, partner_labels);

  for (int64_t i = 0; i < count; ++i) {
    // The mean of a row tells how much of its partner came in: as much as of the partner's label.
    const float* row = batch.images.data() + i * kExtent * kExtent * 3;
    const float mean = std::accumulate(row, row + kExtent * kExtent * 3, 0.0f) /
                       static_cast<float>(kExtent * kExtent * 3);
    const float own = static_cast<float>(i), other = static_cast<float>(count - 1 - i);
    EXPECT_NEAR(mean, mixing.lambda * own + (1 - mixing.lambda) * other, 1e-5f);
    const float* target = targets.data() + i * kClasses;
    EXPECT_NEAR(std::accumulate(target, target + kClasses, 0.0f), 1, kSumBound);
    if (own == other) {
      EXPECT_EQ(std::count(row, row + kExtent * kExtent * 3, own), kExtent * kExtent * 3);
      EXPECT_NEAR(target[i % kClasses], 0.9f + 0.1f / kClasses, kSumBound);
    }
  }
}

TEST(Augment, D24MixingWorksForOneRowAndForOddBatches) {
  for (const MixingOptions& options :
       {MixingOptions{.mixup_alpha = 0.8f}, MixingOptions{.cutmix_alpha = 1},
        MixingOptions{.mixup_alpha = 0.8f, .cutmix_alpha = 1}}) {
    for (uint32_t step = 0; step < 20; ++step) {
      const Mixing mixing = DrawMixing(options, {.step = step}, kExtent, kExtent);
      for (int64_t count = 1; count <= 7; ++count) Check(mixing, count);
    }
  }
}

}  // namespace
}  // namespace tost::data
