#include "data/prefetcher.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace tost::data {
namespace {

TEST(Prefetcher, GivesWhatIsAskedForInAnyOrder) {
  for (int workers : {1, 3}) {
    Prefetcher<int64_t> squares([](int64_t n) { return n * n; }, workers);
    for (int64_t n : {0, 1, 2, 3, 10, 11, 4, 4, 5, 100, 0, 1}) {
      const absl::StatusOr<int64_t> square = squares.Take(n);
      ASSERT_TRUE(square.ok());
      EXPECT_EQ(*square, n * n);
    }
  }
}

TEST(Prefetcher, MakesAheadAsManyAsItHasWorkers) {
  std::atomic<int64_t> made = 0;
  Prefetcher<int64_t> numbers(
      [&](int64_t n) {
        ++made;
        return n;
      },
      /*workers=*/2);
  ASSERT_TRUE(numbers.Take(7).ok());
  while (made < 3) std::this_thread::yield();  // 8 and 9 come by themselves
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(made, 3);  // and 10 does not
}

TEST(Prefetcher, AnErrorIsTheValueOfItsNumberOnly) {
  Prefetcher<int64_t> numbers(
      [](int64_t n) -> absl::StatusOr<int64_t> {
        if (n == 1) return absl::DataLossError(absl::StrCat("number ", n));
        return n;
      },
      /*workers=*/2);
  EXPECT_TRUE(numbers.Take(0).ok());
  EXPECT_EQ(numbers.Take(1).status().message(), "number 1");
  EXPECT_TRUE(numbers.Take(2).ok());
}

}  // namespace
}  // namespace tost::data
