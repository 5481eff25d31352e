#include "autograd/base/parallel.h"

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace tost {
namespace {

class Parallel : public testing::Test {
 protected:
  void TearDown() override { SetThreadCount(threads_before_); }

 private:
  int threads_before_ = ThreadCount();
};

// The ranges of a loop, in order of their beginning; checks that they cover each index once.
std::vector<std::pair<int64_t, int64_t>> CheckedRangesOf(int64_t count, int64_t grain) {
  std::vector<std::atomic<int>> visits(static_cast<size_t>(count));
  std::vector<std::pair<int64_t, int64_t>> ranges(static_cast<size_t>((count + grain - 1) / grain));
  ParallelFor(count, grain, [&](int64_t begin, int64_t end) {
    ranges[static_cast<size_t>(begin / grain)] = {begin, end};
    for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
  });
  for (size_t i = 0; i < visits.size(); ++i) EXPECT_EQ(visits[i], 1) << "index " << i;
  return ranges;
}

TEST_F(Parallel, CoversEveryIndexOnce) {
  for (int64_t count : {0, 1, 2, 7, 8, 9, 1000}) {
    for (int64_t grain : {1, 3, 8, 5000}) CheckedRangesOf(count, grain);
  }
}

TEST_F(Parallel, RangesDoNotDependOnTheThreads) {
  SetThreadCount(1);
  const auto alone = CheckedRangesOf(1000, 17);
  EXPECT_EQ(alone.back(), (std::pair<int64_t, int64_t>{986, 1000}));
  for (int threads : {2, 3, 8}) {
    SetThreadCount(threads);
    EXPECT_EQ(CheckedRangesOf(1000, 17), alone) << threads << " threads";
  }
}

TEST_F(Parallel, InnerLoopStaysOnTheThreadOfTheOuter) {
  SetThreadCount(2);
  std::atomic<int> strangers = 0, visits = 0;
  ParallelFor(8, 1, [&](int64_t, int64_t) {
    const std::thread::id outer = std::this_thread::get_id();
    ParallelFor(8, 1, [&](int64_t, int64_t) {
      ++visits;
      if (std::this_thread::get_id() != outer) ++strangers;
    });
  });
  EXPECT_EQ(visits, 64);
  EXPECT_EQ(strangers, 0);
}

TEST_F(Parallel, ThreadCountIsWhatWasSetOrOne) {
  SetThreadCount(3);
#ifdef _OPENMP
  EXPECT_EQ(ThreadCount(), 3);
#else
  EXPECT_EQ(ThreadCount(), 1);
#endif
}

TEST_F(Parallel, RowGrainAimsAtEqualTasks) {
  EXPECT_EQ(RowGrain(1), 16384);
  EXPECT_EQ(RowGrain(768), 21);
  EXPECT_EQ(RowGrain(1 << 20), 1);
  EXPECT_EQ(RowGrain(0), 16384);
}

TEST(ParallelDeathTest, RefusesAZeroGrain) {
  EXPECT_DEATH(ParallelFor(1, 0, [](int64_t, int64_t) {}), "grain must be positive");
}

}  // namespace
}  // namespace tost
