// Places beyond 2^31 elements: the helpers that find them, without memory, and kernels that read
// and write there, in memory of which only the pages that are touched exist.
#include <sys/mman.h>

#include <cstdint>
#include <tuple>

#include "autograd/base/errors.h"
#include "cuda/cumsum.cuh"
#include "cuda/elementwise.cuh"
#include "cuda/layout.cuh"
#include "cuda/reduce.cuh"
#include "gtest/gtest.h"
#include "ops/merged_axes.h"
#include "ops/reduce_functors.h"

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

TEST(MergedAxes, StridesBeyond2To32) {
  const ops::BroadcastPlan<2> plan({kFar, 3, 5}, {Shape{kFar, 3, 5}, Shape{3, 1}});
  ops::RunCursor<2> cursor(plan, 3 * (kFar - 1) + 2);
  EXPECT_EQ(cursor.offset(0), 15 * (kFar - 1) + 10);
  EXPECT_EQ(cursor.offset(1), 2);

  const ops::ReducePlan reduce({3, kFar, 2}, {3, 1, 2});
  EXPECT_EQ(reduce.outputs(), 6);
  EXPECT_EQ(reduce.reduced.Offset(kFar - 1), 2 * (kFar - 1));
  EXPECT_EQ(reduce.kept.Offset(2), 4 * kFar);

  constexpr int kReversed[] = {2, 1, 0};
  const ops::PermutePlan permute({3, kFar, 5}, kReversed);
  EXPECT_EQ(permute.x_strides[2], 5 * kFar);
  EXPECT_EQ(permute.y_strides[0], 3 * kFar);
}

// Memory for `count` elements, all 0, of which only the pages that are touched exist.
template <class T>
class Sparse {
 public:
  explicit Sparse(int64_t count) : bytes_(static_cast<size_t>(count) * sizeof(T)) {
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    TOST_CHECK(memory_ != MAP_FAILED) << "no " << bytes_ << " bytes of addresses";
  }
  ~Sparse() { munmap(memory_, bytes_); }
  Sparse(const Sparse&) = delete;
  Sparse& operator=(const Sparse&) = delete;

  T* data() const { return static_cast<T*>(memory_); }
  T& operator[](int64_t i) const { return data()[i]; }

 private:
  size_t bytes_;
  void* memory_;
};

// `kRows` rows of `kColumns` numbers, 10 row + column, that lie kFar elements apart.
constexpr int64_t kRows = 3, kColumns = 8;
float NumberAt(int64_t row, int64_t column) { return static_cast<float>(10 * row + column); }
struct FarRows : Sparse<float> {
  FarRows() : Sparse(2 * kFar + kColumns) {
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t c = 0; c < kColumns; ++c) (*this)[row * kFar + c] = NumberAt(row, c);
    }
  }
};

struct Twice {
  template <class S>
  __device__ S operator()(S x) const {
    return 2 * x;
  }
};

TEST(MapElements, ReadsBeyond2To32Bytes) {
  const FarRows x;
  AxisWalk<1> walk;
  walk.AddOutermost(kColumns, {1});
  walk.AddOutermost(kRows, {kFar});
  alignas(16) float y[kRows * kColumns] = {};
  Map(walk, kRows * kColumns, Twice{}, /*add=*/false, y, nullptr,
      static_cast<const float*>(x.data()));
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    EXPECT_EQ(y[i], 2 * NumberAt(i / kColumns, i % kColumns)) << i;
  }
}

// Sums over the columns, and over the rows.
TEST(Reduce, ReadsBeyond2To32Bytes) {
  const FarRows x;
  for (const Layout layout : {Layout::kRow, Layout::kColumn}) {
    const bool rows = layout == Layout::kRow;
    Reduction work{};
    (rows ? work.reduced : work.kept).AddOutermost(kColumns, {1});
    (rows ? work.kept : work.reduced).AddOutermost(kRows, {kFar});
    work.outputs = rows ? kRows : kColumns;
    work.elements = rows ? kColumns : kRows;
    float sums[kColumns] = {};
    RunReduction<ops::functor::Total>(layout, work, kColumns, static_cast<const float*>(x.data()),
                                      nullptr, Results<float, float>{1, false, sums}, nullptr,
                                      [](int64_t) -> float* { return nullptr; });
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    for (int64_t i = 0; i < work.outputs; ++i) {
      float expected = 0;
      for (int64_t k = 0; k < work.elements; ++k)
        expected += rows ? NumberAt(i, k) : NumberAt(k, i);
      EXPECT_EQ(sums[i], expected) << i;
    }
  }
}

TEST(Transpose, ReadsAndWritesBeyond2To32Bytes) {
  const FarRows x;
  const Sparse<float> y((kColumns - 1) * kFar + kRows);
  Transposition work{};
  work.across = kColumns;
  work.last = kRows;
  work.x_last_stride = work.y_across_stride = kFar;
  Transpose(work, /*outers=*/1, static_cast<const float*>(x.data()), /*add=*/false, y.data(),
            nullptr);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t c = 0; c < kColumns; ++c) EXPECT_EQ(y[c * kFar + row], NumberAt(row, c));
  }
}

TEST(CopyRows, ReadsAndWritesBeyond2To32Bytes) {
  const FarRows x;
  const Sparse<float> y(2 * kFar + kColumns);
  Copy({.rows = kRows, .run = kColumns, .x_row = kFar, .y_row = kFar},
       static_cast<const float*>(x.data()), /*add=*/false, y.data(), nullptr);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t c = 0; c < kColumns; ++c) EXPECT_EQ(y[row * kFar + c], NumberAt(row, c));
  }
}

// ---- Launches of more than 2^31 threads, of which the host does the work of one ----

// The host now stands in the place of this thread of a launch.
void StandIn(int64_t thread, int64_t threads_of_block) {
  blockIdx = {static_cast<unsigned>(thread / threads_of_block), 0, 0};
  threadIdx = {static_cast<unsigned>(thread % threads_of_block), 0, 0};
}

TEST(MapElements, TheLastOfManyThreads) {
  const Sparse<float> x(kFar), y(kFar);
  AxisWalk<1> walk;
  walk.AddOutermost(kFar, {1});
  x[kFar - 1] = 21;
  StandIn(kFar - 1, kMapThreads);
  MapElements<1, Twice, float, float>(walk, kFar, Twice{}, /*add=*/false, y.data(), x.data());
  EXPECT_EQ(y[kFar - 1], 42);
}

// x: [2, 3, kFar], of which rows 1 and 2 are picked.
constexpr Selection kSelection{.outer = 2, .extent = 3, .count = 2, .inner = kFar};

TEST(SelectRows, TheLastOfManyThreads) {
  const Sparse<float> x(6 * kFar), y(4 * kFar);
  const int32_t index[] = {1, 2};
  x[6 * kFar - 1] = 7;
  StandIn(4 * kFar - 1, kLayoutThreads);
  SelectRows<1, float>(kSelection, Divisor(kFar), Divisor(kSelection.count), x.data(), index,
                       y.data());
  EXPECT_EQ(y[4 * kFar - 1], 7);
}

TEST(GatherElements, TheLastOfManyThreads) {
  const Sparse<float> x(6 * kFar), y(4 * kFar);
  const Sparse<int32_t> index(4 * kFar);
  index[4 * kFar - 1] = 1;
  x[5 * kFar - 1] = 7;
  StandIn(4 * kFar - 1, kLayoutThreads);
  GatherElements<float>(kSelection, Divisor(kFar), Divisor(kSelection.count), x.data(),
                        index.data(), y.data());
  EXPECT_EQ(y[4 * kFar - 1], 7);
}

TEST(GatherElementsBackward, TheLastOfManyThreads) {
  const Sparse<float> dy(4 * kFar), dx(6 * kFar);
  const Sparse<int32_t> index(4 * kFar);
  index[3 * kFar - 1] = 2;
  index[4 * kFar - 1] = 1;
  dy[3 * kFar - 1] = 3;
  dy[4 * kFar - 1] = 4;
  StandIn(2 * kFar - 1, kLayoutThreads);
  GatherElementsBackward<float>(kSelection, Divisor(kFar), dy.data(), index.data(), dx.data());
  EXPECT_EQ(dx[5 * kFar - 1], 4);
  EXPECT_EQ(dx[6 * kFar - 1], 3);
}

// Sums over the middle axis of [2, 3, kFar], whole columns.
TEST(ScanColumnChunks, TheLastOfManyThreads) {
  const Sparse<float> x(6 * kFar), y(6 * kFar);
  const Scan work{2, 3, kFar, /*reverse=*/false, /*chunk=*/3, Divisor(1), Divisor(kFar)};
  for (int64_t i = 0; i < 3; ++i) x[(3 + i + 1) * kFar - 1] = static_cast<float>(i + 1);
  StandIn(2 * kFar - 1, kScanThreads);
  ScanColumnChunks<float, float>(work, x.data(), nullptr, /*add=*/false, y.data());
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(y[(3 + i + 1) * kFar - 1], static_cast<float>((i + 1) * (i + 2) / 2)) << i;
  }
}

}  // namespace
}  // namespace tost::cuda
