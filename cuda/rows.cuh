// One vector against the rows of a matrix, by one block: what attention of a single query consists
// of.
#ifndef TOST_CUDA_ROWS_CUH_
#define TOST_CUDA_ROWS_CUH_

#include "cuda/collectives.cuh"
#include "cuda/pack.cuh"
#include "cuda/thread_groups.cuh"

namespace tost::cuda {

// `count` rows of `columns` elements, `stride` elements apart.
template <class T>
struct Rows {
  const T* data;
  int64_t stride, count;
  int columns;
};

// products[r] = scale · Σ_c vector[c] · row_r[c]. A group of at most a warp takes a row, a lane its
// packs in turn. All threads of the block call it; a barrier makes the products everyone's.
template <int kPack, class T>
__device__ __forceinline__ void RowDots(const T* vector, const Rows<T>& rows, Sum<T> scale,
                                        Sum<T>* products) {
  const ThreadGroup<Layout::kRow> threads(PowerOfTwo(rows.columns / kPack, kWarp));
  for (int64_t first = 0; first < rows.count; first += threads.groups) {
    const int64_t row = first + threads.group;
    const int columns = row < rows.count ? rows.columns : 0;
    Sum<T> sum = 0;
    for (int c = threads.lane * kPack; c < columns; c += threads.lanes * kPack) {
      const auto a = LoadPack<kPack>(vector + c);
      const auto b = LoadPack<kPack>(rows.data + row * rows.stride + c);
#pragma unroll
      for (int e = 0; e < kPack; ++e) sum += a[e] * b[e];
    }
    sum = GroupReduce<Add>(threads, sum);
    if (row < rows.count && threads.lane == 0) products[row] = scale * sum;
  }
}

// Calls put(c, numbers) with numbers[e] = Σ_r weights[r] · row_r[c + e], by one thread for each
// pack of columns. A group takes a pack of columns, a lane its rows in turn. All threads of the
// block call it.
template <int kPack, class T, class Put>
__device__ __forceinline__ void WeightedRowSum(const Sum<T>* weights, const Rows<T>& rows,
                                               const Put& put) {
  const int packs = PowerOfTwo(rows.columns / kPack, kWarp);
  const ThreadGroup<Layout::kColumn> threads(kGroupThreads / packs);
  for (int first = 0; first < rows.columns; first += packs * kPack) {
    const int c = first + threads.group * kPack;
    const int64_t count = c < rows.columns ? rows.count : 0;
    Numbers<Sum<T>, kPack> sums{};
    for (int64_t row = threads.lane; row < count; row += threads.lanes) {
      const auto numbers = LoadPack<kPack>(rows.data + row * rows.stride + c);
#pragma unroll
      for (int e = 0; e < kPack; ++e) sums[e] += weights[row] * numbers[e];
    }
    sums = GroupReduce<Add>(threads, sums);
    if (threads.lane == 0 && c < rows.columns) put(c, sums);
  }
}

}  // namespace tost::cuda

#endif  // TOST_CUDA_ROWS_CUH_
