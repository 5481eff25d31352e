// Copies between layouts: transposition, ranges, rows picked by index.
#ifndef TOST_CUDA_LAYOUT_CUH_
#define TOST_CUDA_LAYOUT_CUH_

#include <algorithm>

#include "cuda/axis_walk.cuh"
#include "cuda/collectives.cuh"
#include "cuda/elementwise.cuh"
#include "cuda/gpu.h"
#include "cuda/math.cuh"
#include "cuda/pack.cuh"

namespace tost::cuda {

inline constexpr int kLayoutThreads = 256;

inline dim3 LayoutBlocks(int64_t threads) {
  return dim3(static_cast<unsigned>(CeilDivide<int64_t>(threads, kLayoutThreads)));
}

// A transposition of two axes: x is contiguous along `across`, y along `last`.
struct Transposition {
  int64_t across, last;  // extents
  int64_t x_last_stride, y_across_stride;
  Divisor across_tiles, last_tiles;
  AxisWalk<2> outer;  // the other axes: offsets into x and y
};

inline constexpr int kTile = 32;
inline constexpr int kTileRows = kLayoutThreads / kTile;

// A block owns a tile of kTile × kTile elements, a thread kTile / kTileRows of them: it reads along
// x's contiguous axis, the block turns the tile in shared memory (a column more than needed keeps
// a column's elements in different banks), and it writes along y's.
template <class From, class To>
__global__ void __launch_bounds__(kLayoutThreads)
    TransposeTiles(Transposition work, const From* x, bool add, To* y) {
  TOST_SHARED(From, tile, [kTile][kTile + 1]);
  const int lane = static_cast<int>(threadIdx.x) % kTile,
            row = static_cast<int>(threadIdx.x) / kTile;
  const int64_t tile_row = work.last_tiles.Quotient(blockIdx.x);
  const int64_t outer = work.across_tiles.Quotient(tile_row);
  const int64_t last = (blockIdx.x - tile_row * work.last_tiles.value()) * kTile;
  const int64_t across = (tile_row - outer * work.across_tiles.value()) * kTile;
  int64_t offset[2];
  work.outer.Offsets(outer, offset);

  for (int i = row; i < kTile && last + i < work.last; i += kTileRows) {
    if (across + lane >= work.across) break;
    tile[i][lane] = x[offset[0] + (last + i) * work.x_last_stride + across + lane];
  }
  __syncthreads();
  for (int i = row; i < kTile && across + i < work.across; i += kTileRows) {
    if (last + lane >= work.last) break;
    const Numbers<Sum<To>, 1> value{{static_cast<Sum<To>>(Widen(tile[lane][i]))}};
    StoreResult<1>(y + offset[1] + (across + i) * work.y_across_stride + last + lane, value, add);
  }
}

// Reads x once, writes y once. `outers`: elements of work.outer.
template <class From, class To>
void Transpose(Transposition work, int64_t outers, const From* x, bool add, To* y,
               cudaStream_t stream) {
  const int64_t across = CeilDivide<int64_t>(work.across, kTile);
  const int64_t last = CeilDivide<int64_t>(work.last, kTile);
  work.across_tiles = Divisor(across);
  work.last_tiles = Divisor(last);
  gpu::Launch(&TransposeTiles<From, To>, dim3(static_cast<unsigned>(outers * across * last)),
              dim3(kLayoutThreads), 0, stream, work, x, add, y);
}

// Rows of `run` contiguous elements, x_row and y_row apart.
struct RowCopy {
  int64_t rows, run, x_row, y_row;
};

// A thread owns a pack of a row.
template <int kPack, class From, class To>
__global__ void __launch_bounds__(kLayoutThreads)
    CopyRows(RowCopy work, Divisor packs, const From* x, bool add, To* y) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kLayoutThreads + threadIdx.x;
  const int64_t row = packs.Quotient(thread);
  if (row >= work.rows) return;
  const int64_t column = (thread - row * packs.value()) * kPack;
  const auto from = LoadPack<kPack>(x + row * work.x_row + column);
  Numbers<Sum<To>, kPack> values;
#pragma unroll
  for (int i = 0; i < kPack; ++i) values[i] = static_cast<Sum<To>>(from[i]);
  StoreResult<kPack>(y + row * work.y_row + column, values, add);
}

// Copies rows, or adds them to y. Reads x once, writes y once.
template <class From, class To>
void Copy(const RowCopy& work, const From* x, bool add, To* y, cudaStream_t stream) {
  if (work.rows == 0 || work.run == 0) return;
  constexpr int kPack = kAccessBytes / static_cast<int>(std::max(sizeof(From), sizeof(To)));
  const bool packs = (work.run | work.x_row | work.y_row) % kPack == 0 && Aligned<kPack>(x, y);
  const int64_t per_row = packs ? work.run / kPack : work.run;
  gpu::Launch(packs ? &CopyRows<kPack, From, To> : &CopyRows<1, From, To>,
              LayoutBlocks(work.rows * per_row), dim3(kLayoutThreads), 0, stream, work,
              Divisor(per_row), x, add, y);
}

// x: [outer, extent, inner] and y: [outer, count, inner], of which elements are picked by indices
// into x's middle axis. An index outside of it gives NaN, and its gradient goes nowhere: the host
// cannot be told in time, and a NaN does not stay unnoticed.
struct Selection {
  int64_t outer, extent, count, inner;
};

template <class T>
__device__ __forceinline__ bool IsInside(const T& work, int64_t index) {
  return index >= 0 && index < work.extent;
}

// y[o, i, :] = x[o, index[i], :]. A thread owns a pack of y.
template <int kPack, class T>
__global__ void __launch_bounds__(kLayoutThreads)
    SelectRows(Selection work, Divisor packs, Divisor counts, const T* x, const int32_t* index,
               T* y) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kLayoutThreads + threadIdx.x;
  const int64_t row = packs.Quotient(thread);
  const int64_t outer = counts.Quotient(row);
  if (outer >= work.outer) return;
  const int64_t column = (thread - row * packs.value()) * kPack;
  const int64_t from = index[row - outer * work.count];
  Numbers<Sum<T>, kPack> values;
#pragma unroll
  for (int i = 0; i < kPack; ++i) values[i] = static_cast<Sum<T>>(__builtin_nanf(""));
  if (IsInside(work, from)) {
    values = LoadPack<kPack>(x + (outer * work.extent + from) * work.inner + column);
  }
  StorePack<kPack>(y + row * work.inner + column, values);
}

// Reads the picked rows once, writes y once.
template <class T>
void Select(const Selection& work, const T* x, const int32_t* index, T* y, cudaStream_t stream) {
  constexpr int kPack = kPackWidth<T>;
  const bool packs = PacksFit<T>(work.inner, x, y);
  const int64_t per_row = packs ? work.inner / kPack : work.inner;
  gpu::Launch(packs ? &SelectRows<kPack, T> : &SelectRows<1, T>,
              LayoutBlocks(work.outer * work.count * per_row), dim3(kLayoutThreads), 0, stream,
              work, Divisor(per_row), Divisor(work.count), x, index, y);
}

// dx[o, index[i], :] += dy[o, i, :] in the order of i. A block owns one row j of dx and, of the
// [outer, inner] columns, one for each of its threads: together they look for the i with
// index[i] = j, and each then adds its column of those rows.
template <class T>
__global__ void __launch_bounds__(kLayoutThreads)
    SelectRowsBackward(Selection work, Divisor strips, Divisor inner, const T* dy,
                       const int32_t* index, Sum<T>* dx) {
  TOST_SHARED(int, matches, [kLayoutThreads]);
  TOST_SHARED(int, found, [1]);
  const int64_t row = strips.Quotient(blockIdx.x);
  const int64_t strip = blockIdx.x - row * strips.value();
  const int64_t place = strip * kLayoutThreads + threadIdx.x;
  const int64_t outer = inner.Quotient(place), column = place - outer * work.inner;
  const bool valid = outer < work.outer;
  Sum<T>* const to = dx + (outer * work.extent + row) * work.inner + column;
  const T* const from = dy + outer * work.count * work.inner + column;
  Sum<T> sum = valid ? *to : Sum<T>(0);
  for (int64_t first = 0; first < work.count; first += kLayoutThreads) {
    const int64_t i = first + threadIdx.x;
    const int match = i < work.count && index[i] == row ? 1 : 0;
    const int rank = BlockInclusiveSum(match);
    if (match) matches[rank - 1] = static_cast<int>(threadIdx.x);
    if (threadIdx.x == kLayoutThreads - 1) found[0] = rank;
    __syncthreads();
    for (int k = 0; valid && k < found[0]; ++k) {
      sum += Widen(from[(first + matches[k]) * work.inner]);
    }
    __syncthreads();
  }
  if (valid) *to = sum;
}

// Reads dy once and writes dx once; the indices are read once per row of dx.
template <class T>
void SelectBackward(const Selection& work, const T* dy, const int32_t* index, Sum<T>* dx,
                    cudaStream_t stream) {
  const int64_t strips = CeilDivide<int64_t>(work.outer * work.inner, kLayoutThreads);
  gpu::Launch(&SelectRowsBackward<T>, dim3(static_cast<unsigned>(work.extent * strips)),
              dim3(kLayoutThreads), 0, stream, work, Divisor(strips), Divisor(work.inner), dy,
              index, dx);
}

// y[o, i, p] = x[o, index[o, i, p], p]. A thread owns an element of y.
template <class T>
__global__ void __launch_bounds__(kLayoutThreads)
    GatherElements(Selection work, Divisor inner, Divisor counts, const T* x, const int32_t* index,
                   T* y) {
  const int64_t element = static_cast<int64_t>(blockIdx.x) * kLayoutThreads + threadIdx.x;
  const int64_t row = inner.Quotient(element);
  const int64_t outer = counts.Quotient(row);
  if (outer >= work.outer) return;
  const int64_t from = index[element];
  y[element] = IsInside(work, from)
                   ? x[(outer * work.extent + from) * work.inner + element - row * work.inner]
                   : Narrow<T>(__builtin_nanf(""));
}

template <class T>
void GatherByIndex(const Selection& work, const T* x, const int32_t* index, T* y,
                   cudaStream_t stream) {
  gpu::Launch(&GatherElements<T>, LayoutBlocks(work.outer * work.count * work.inner),
              dim3(kLayoutThreads), 0, stream, work, Divisor(work.inner), Divisor(work.count), x,
              index, y);
}

// dx[o, index[o, i, p], p] += dy[o, i, p] in the order of i. A thread owns a column (o, p) of dx
// and walks its i, so that nobody else writes where it does.
template <class T>
__global__ void __launch_bounds__(kLayoutThreads)
    GatherElementsBackward(Selection work, Divisor inner, const T* dy, const int32_t* index,
                           Sum<T>* dx) {
  const int64_t place = static_cast<int64_t>(blockIdx.x) * kLayoutThreads + threadIdx.x;
  const int64_t outer = inner.Quotient(place), column = place - outer * work.inner;
  if (outer >= work.outer) return;
  for (int64_t i = 0; i < work.count; ++i) {
    const int64_t from = (outer * work.count + i) * work.inner + column;
    if (!IsInside(work, index[from])) continue;
    dx[(outer * work.extent + index[from]) * work.inner + column] += Widen(dy[from]);
  }
}

template <class T>
void GatherByIndexBackward(const Selection& work, const T* dy, const int32_t* index, Sum<T>* dx,
                           cudaStream_t stream) {
  gpu::Launch(&GatherElementsBackward<T>, LayoutBlocks(work.outer * work.inner),
              dim3(kLayoutThreads), 0, stream, work, Divisor(work.inner), dy, index, dx);
}

}  // namespace tost::cuda

#endif  // TOST_CUDA_LAYOUT_CUH_
