// Places beyond 2^31 elements: the helpers that find them, without memory, and a kernel that reads
// there, in memory of which only the pages that are touched exist.
#include <sys/mman.h>

#include <cstdint>
#include <tuple>

#include "cuda/elementwise.cuh"
#include "gtest/gtest.h"

namespace tost::cuda {
namespace {

constexpr int64_t kFar = (int64_t{1} << 31) + 8;  // elements

TEST(Divisor, OfAnyNumberBelow2To63) {
  const int64_t numbers[] = {
      1,        2,       3,        7,    641,          8192,
      50257,    1 << 20, kFar - 1, kFar, kFar * 3 + 1, (int64_t{1} << 62) - 1,
      INT64_MAX};
  for (const int64_t divisor : numbers) {
    const Divisor by(divisor);
    for (const int64_t number : numbers) {
      for (const int64_t n : {number - 1, number}) {
        EXPECT_EQ(by.Quotient(n), n / divisor) << n << " / " << divisor;
        EXPECT_EQ(by.Remainder(n), n % divisor) << n << " % " << divisor;
      }
    }
  }
}

TEST(AxisWalk, OffsetsBeyond2To32) {
  AxisWalk<1> walk;  // [3, 2^31 + 8, 5], permuted
  walk.AddOutermost(5, {3 * kFar});
  walk.AddOutermost(kFar, {1});
  walk.AddOutermost(3, {kFar});
  for (const auto& [a, b, c] : {std::tuple<int64_t, int64_t, int64_t>{0, kFar - 1, 4},
                                {2, kFar - 1, 4},
                                {1, kFar / 2, 3},
                                {2, 0, 0}}) {
    EXPECT_EQ(walk.Offset((a * kFar + b) * 5 + c), c * 3 * kFar + b + a * kFar);
  }
}

struct Twice {
  template <class S>
  S operator()(S x) const {
    return 2 * x;
  }
};

// y [3, 8] from rows of x that lie 2^31 + 8 elements apart.
TEST(MapElements, ReadsBeyond2To32Bytes) {
  constexpr int64_t kRows = 3, kColumns = 8;
  constexpr size_t kBytes = (2 * kFar + kColumns) * sizeof(float);
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const x = static_cast<float*>(memory);
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t c = 0; c < kColumns; ++c) x[row * kFar + c] = static_cast<float>(10 * row + c);
  }
  AxisWalk<1> walk;
  walk.AddOutermost(kColumns, {1});
  walk.AddOutermost(kRows, {kFar});
  alignas(16) float y[kRows * kColumns] = {};
  Map(walk, kRows * kColumns, Twice{}, /*add=*/false, y, nullptr, static_cast<const float*>(x));
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    EXPECT_EQ(y[i], static_cast<float>(2 * (10 * (i / kColumns) + i % kColumns))) << i;
  }
  munmap(memory, kBytes);
}

}  // namespace
}  // namespace tost::cuda
