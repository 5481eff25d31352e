#include "trainers/trainer.h"

#include "gtest/gtest.h"

namespace tost::train {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

// 2 GiB do not depend on the batch; 6 were in use when one more found room for half of it only.
TEST(MicroBatchAdvice, IsWhatFitsIntoTheRoomThatThereIs) {
  const OutOfMemory failure{.asked_bytes = kGiB, .live_bytes = 6 * kGiB, .free_bytes = kGiB / 2};
  // (4 + 0.5) / (4 + 1) of 32
  EXPECT_EQ(MicroBatchAdvice(failure, 32, 2 * kGiB),
            "of --micro_batch 32 at most 28 fit beside 2.0 GiB of weights, gradients and moments; "
            "use that or fewer, or --recompute");
}

TEST(MicroBatchAdvice, IsLessThanWhatFailed) {
  // Free in pieces, or taken by others meanwhile.
  const OutOfMemory failure{.asked_bytes = 8, .live_bytes = 2 * kGiB, .free_bytes = kGiB};
  EXPECT_NE(MicroBatchAdvice(failure, 4, kGiB).find("at most 3 fit"), std::string::npos);
}

TEST(MicroBatchAdvice, SaysWhenNothingFits) {
  const OutOfMemory failure{.asked_bytes = kGiB, .live_bytes = 4 * kGiB, .free_bytes = 1000};
  for (const int64_t micro_batch : {1, 8}) {
    EXPECT_EQ(MicroBatchAdvice(failure, micro_batch, 4 * kGiB),
              "not even --micro_batch 1 fits beside 4.0 GiB of weights, gradients and moments; use "
              "--recompute, --compute_dtype bfloat16 or a smaller model");
  }
}

}  // namespace
}  // namespace tost::train
