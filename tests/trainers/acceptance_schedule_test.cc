#include <cmath>

#include "gtest/gtest.h"
#include "trainers/schedule.h"

namespace tost::train {
namespace {

// A function of the update number: a resumed run asks the same question and gets the same answer.
TEST(T14, FirstWarmUpUpdateIsAboveZero) {
  const WarmupCosine schedule{.peak = 6e-4f, .floor = 6e-5f, .warmup = 2000, .total = 600000};
  EXPECT_FLOAT_EQ(schedule.At(1), 6e-4f / 2000);
  for (int64_t update = 2; update <= 2000; ++update) {
    ASSERT_GT(schedule.At(update), schedule.At(update - 1)) << update;
  }
}

TEST(T14, ResumingAsksTheSameFunction) {
  const WarmupCosine run{.peak = 1e-3f, .floor = 1e-4f, .warmup = 3, .total = 20};
  const WarmupCosine resumed = run;
  for (int64_t update = 20; update >= 11; --update) {  // in any order
    EXPECT_EQ(resumed.At(update), run.At(update));
  }
}

TEST(T16, ExtremeSchedulesStayFinite) {
  const float peak = 1e-3f, floor = 1e-4f;
  struct Extreme {
    int64_t warmup, total;
    float last;  // rate of the update `total`
  };
  for (const Extreme& c :
       {Extreme{0, 1, floor},                          // one update, without warm-up
        Extreme{0, 10, floor}, Extreme{10, 10, peak},  // warm-up ends where the run does
        Extreme{20, 10, peak / 2}}) {                  // the run ends half-way up
    const WarmupCosine schedule{peak, floor, c.warmup, c.total};
    for (int64_t update = 0; update <= 40; ++update) {
      const float rate = schedule.At(update);
      EXPECT_TRUE(std::isfinite(rate)) << c.warmup << " " << c.total << " " << update;
      EXPECT_GE(rate, 0);
      EXPECT_LE(rate, peak);
    }
    EXPECT_FLOAT_EQ(schedule.At(c.total), c.last) << c.warmup << " " << c.total;
    EXPECT_EQ(schedule.At(40), floor);
  }
}

}  // namespace
}  // namespace tost::train
