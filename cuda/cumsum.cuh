// Prefix sums along an axis, cut into chunks: totals of the chunks, their prefix sums, and the
// chunks again from what comes before them. A tensor is seen as [outer, extent, inner].
#ifndef TOST_CUDA_CUMSUM_CUH_
#define TOST_CUDA_CUMSUM_CUH_

#include "cuda/axis_walk.cuh"
#include "cuda/collectives.cuh"
#include "cuda/gpu.h"
#include "cuda/math.cuh"
#include "cuda/pack.cuh"

namespace tost::cuda {

inline constexpr int kScanThreads = 256;
inline constexpr int kScanPack = 4;                          // neighbours that a thread owns
inline constexpr int kRowChunk = kScanThreads * kScanPack;   // elements of a row
inline constexpr int kColumnChunk = 128;                     // elements of a column
inline constexpr int64_t kShortRow = 32;                     // one thread sums it
inline constexpr int64_t kEnoughColumns = int64_t{1} << 16;  // that need no cutting

// Positions count in the direction of the sum: 0 is the last element when `reverse`.
struct Scan {
  int64_t outer, extent, inner;
  bool reverse;
  int64_t chunk;
  Divisor chunks, columns;  // columns: inner

  TOST_HD int64_t Place(int64_t position) const {
    return reverse ? extent - 1 - position : position;
  }
};

// The kScanPack elements of a row from `position` on, in the direction of the sum; 0 beyond its
// end.
template <class T>
__device__ __forceinline__ Numbers<Sum<T>, kScanPack> LoadPositions(const Scan& work, const T* row,
                                                                    int64_t position,
                                                                    bool aligned) {
  Numbers<Sum<T>, kScanPack> values;
  if (aligned && position + kScanPack <= work.extent) {
    const int64_t last = position + kScanPack - 1;
    const auto pack = LoadPack<kScanPack>(row + work.Place(work.reverse ? last : position));
#pragma unroll
    for (int i = 0; i < kScanPack; ++i) values[i] = pack[work.reverse ? kScanPack - 1 - i : i];
    return values;
  }
#pragma unroll
  for (int i = 0; i < kScanPack; ++i) {
    const bool inside = position + i < work.extent;
    values[i] = inside ? Widen(row[work.Place(position + i)]) : Sum<T>(0);
  }
  return values;
}

// A block owns a chunk of a row, a thread kScanPack neighbours in it.
template <class T>
__global__ void __launch_bounds__(kScanThreads)
    SumRowChunks(Scan work, const T* x, bool aligned, Sum<T>* totals) {
  const int64_t row = work.chunks.Quotient(blockIdx.x);
  const int64_t chunk = blockIdx.x - row * work.chunks.value();
  const Numbers<Sum<T>, kScanPack> values = LoadPositions(
      work, x + row * work.extent, chunk * kRowChunk + threadIdx.x * kScanPack, aligned);
  Sum<T> sum = values[0];
#pragma unroll
  for (int i = 1; i < kScanPack; ++i) sum += values[i];
  sum = BlockSum(sum);
  if (threadIdx.x == 0) totals[blockIdx.x] = sum;
}

// Σ over the threads before this one. All threads of the block call it.
template <class S>
__device__ __forceinline__ S BlockExclusiveSum(S value) {
  TOST_SHARED(S, sums, [kScanThreads]);
  sums[threadIdx.x] = BlockInclusiveSum(value);
  __syncthreads();
  return threadIdx.x == 0 ? S(0) : sums[threadIdx.x - 1];
}

// A block owns a chunk of a row, a thread kScanPack neighbours in it. carry[row, chunk] is the sum
// before the chunk; null for 0.
template <class T, class Out>
__global__ void __launch_bounds__(kScanThreads)
    ScanRowChunks(Scan work, const T* x, const Sum<T>* carry, bool aligned, bool add, Out* y) {
  using S = Sum<T>;
  const int64_t row = work.chunks.Quotient(blockIdx.x);
  const int64_t chunk = blockIdx.x - row * work.chunks.value();
  const int64_t position = chunk * kRowChunk + threadIdx.x * kScanPack;
  Numbers<S, kScanPack> sums = LoadPositions(work, x + row * work.extent, position, aligned);
#pragma unroll
  for (int i = 1; i < kScanPack; ++i) sums[i] += sums[i - 1];
  const S before =
      (carry == nullptr ? S(0) : carry[blockIdx.x]) + BlockExclusiveSum(sums[kScanPack - 1]);
#pragma unroll
  for (int i = 0; i < kScanPack; ++i) {
    if (position + i >= work.extent) break;
    Out& to = y[row * work.extent + work.Place(position + i)];
    const S sum = before + sums[i];
    to = Narrow<Out>(add ? Widen(to) + static_cast<Sum<Out>>(sum) : static_cast<Sum<Out>>(sum));
  }
}

// What a thread of the kernels of columns owns: `chunk` of one column.
struct ColumnChunk {
  int64_t outer, chunk, column;
  __device__ __forceinline__ ColumnChunk(const Scan& work, int64_t thread) {
    const int64_t rest = work.columns.Quotient(thread);
    column = thread - rest * work.inner;
    outer = work.chunks.Quotient(rest);
    chunk = rest - outer * work.chunks.value();
  }
};

// A thread owns a chunk of a column; neighbouring threads own neighbouring columns.
template <class T>
__global__ void __launch_bounds__(kScanThreads)
    SumColumnChunks(Scan work, const T* x, Sum<T>* totals) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kScanThreads + threadIdx.x;
  const ColumnChunk own(work, thread);
  if (own.outer >= work.outer) return;
  const int64_t end = min((own.chunk + 1) * work.chunk, work.extent);
  const T* const column = x + own.outer * work.extent * work.inner + own.column;
  Sum<T> sum = 0;
  for (int64_t position = own.chunk * work.chunk; position < end; ++position) {
    sum += Widen(column[work.Place(position) * work.inner]);
  }
  totals[thread] = sum;
}

template <class T, class Out>
__global__ void __launch_bounds__(kScanThreads)
    ScanColumnChunks(Scan work, const T* x, const Sum<T>* carry, bool add, Out* y) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kScanThreads + threadIdx.x;
  const ColumnChunk own(work, thread);
  if (own.outer >= work.outer) return;
  const int64_t end = min((own.chunk + 1) * work.chunk, work.extent);
  const int64_t first = own.outer * work.extent * work.inner + own.column;
  Sum<T> sum = carry == nullptr ? Sum<T>(0) : carry[thread];
  for (int64_t position = own.chunk * work.chunk; position < end; ++position) {
    const int64_t at = first + work.Place(position) * work.inner;
    sum += Widen(x[at]);
    y[at] =
        Narrow<Out>(add ? Widen(y[at]) + static_cast<Sum<Out>>(sum) : static_cast<Sum<Out>>(sum));
  }
}

// totals: [outer, chunks, inner]. A thread owns one (outer, inner) and makes of its totals the sums
// before each chunk.
template <class S>
__global__ void __launch_bounds__(kScanThreads) CarryChunks(Scan work, S* totals) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kScanThreads + threadIdx.x;
  const int64_t outer = work.columns.Quotient(thread);
  if (outer >= work.outer) return;
  const int64_t chunks = work.chunks.value();
  S* const total = totals + outer * chunks * work.inner + thread - outer * work.inner;
  S sum = 0;
  for (int64_t i = 0; i < chunks; ++i) {
    const S own = total[i * work.inner];
    total[i * work.inner] = sum;
    sum += own;
  }
}

// Prefix sums (suffix sums when `reverse`) of x: [outer, extent, inner], all at least 1, into y, or
// added to y. scratch(n) gives room for n totals. Reads x once and writes y once where an axis is
// one chunk, and reads x twice otherwise.
template <class T, class Out, class Scratch>
void RunCumsum(int64_t outer, int64_t extent, int64_t inner, bool reverse, const T* x, bool add,
               Out* y, cudaStream_t stream, const Scratch& scratch) {
  const bool rows = inner == 1 && extent > kShortRow;
  Scan work{outer, extent, inner, reverse, extent, Divisor(1), Divisor(inner)};
  if (rows) {
    work.chunk = kRowChunk;
  } else if (outer * inner < kEnoughColumns) {
    work.chunk = kColumnChunk;
  }
  const int64_t chunks = CeilDivide(extent, work.chunk);
  work.chunks = Divisor(chunks);
  const auto grid = [](int64_t threads) {
    return dim3(static_cast<unsigned>(CeilDivide<int64_t>(threads, kScanThreads)));
  };
  const int64_t threads = rows ? outer * chunks * kScanThreads : outer * chunks * inner;
  const bool aligned = extent % kScanPack == 0 && Aligned<kScanPack>(x);
  Sum<T>* carry = nullptr;
  if (chunks > 1) {
    carry = scratch(outer * chunks * inner);
    if (rows) {
      gpu::Launch(&SumRowChunks<T>, grid(threads), dim3(kScanThreads), 0, stream, work, x, aligned,
                  carry);
    } else {
      gpu::Launch(&SumColumnChunks<T>, grid(threads), dim3(kScanThreads), 0, stream, work, x,
                  carry);
    }
    gpu::Launch(&CarryChunks<Sum<T>>, grid(outer * inner), dim3(kScanThreads), 0, stream, work,
                carry);
  }
  if (rows) {
    gpu::Launch(&ScanRowChunks<T, Out>, grid(threads), dim3(kScanThreads), 0, stream, work, x,
                carry, aligned, add, y);
  } else {
    gpu::Launch(&ScanColumnChunks<T, Out>, grid(threads), dim3(kScanThreads), 0, stream, work, x,
                carry, add, y);
  }
}

}  // namespace tost::cuda

#endif  // TOST_CUDA_CUMSUM_CUH_
