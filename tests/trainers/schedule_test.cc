#include "trainers/schedule.h"

#include "gtest/gtest.h"

namespace tost::train {
namespace {

TEST(WarmupCosine, WarmsUpFallsAndEndsAtTheFloor) {
  const WarmupCosine schedule{.peak = 1, .floor = 0.1f, .warmup = 10, .total = 110};
  EXPECT_EQ(schedule.At(5), 0.5f);
  EXPECT_EQ(schedule.At(10), 1.0f);
  EXPECT_FLOAT_EQ(schedule.At(60), 0.55f);  // half-way down
  EXPECT_EQ(schedule.At(110), 0.1f);
  EXPECT_EQ(schedule.At(111), 0.1f);
  for (int64_t i = 11; i <= 120; ++i) EXPECT_LE(schedule.At(i), schedule.At(i - 1)) << i;
}

TEST(WarmupCosine, IsConstantWhenTheFloorIsThePeak) {
  const WarmupCosine schedule{.peak = 3e-5f, .floor = 3e-5f, .warmup = 0, .total = 20};
  for (int64_t i = 1; i <= 30; ++i) EXPECT_EQ(schedule.At(i), 3e-5f) << i;
}

TEST(VisionSchedule, StartsLowAndEndsAtTheFloor) {
  const VisionSchedule schedule{};
  EXPECT_EQ(schedule.At(0), 1e-6f);
  EXPECT_GT(schedule.At(5), schedule.At(4));
  EXPECT_LT(schedule.At(6), schedule.At(5));
  EXPECT_EQ(schedule.At(400), 1e-5f);
  EXPECT_EQ(schedule.AsOfficialLoop(0), schedule.At(0));
  EXPECT_EQ(schedule.AsOfficialLoop(1), schedule.At(0));
  EXPECT_EQ(schedule.AsOfficialLoop(7), schedule.At(6));
}

TEST(FineTuneSchedule, FallsFromThePeakToZero) {
  const FineTuneSchedule schedule{.peak = 2, .epochs = 8};
  EXPECT_EQ(schedule.At(0), 2);
  EXPECT_FLOAT_EQ(schedule.At(4), 1);
  EXPECT_EQ(schedule.At(8), 0);
}

}  // namespace
}  // namespace tost::train
