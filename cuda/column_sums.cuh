// Sums over the rows of a matrix in an order that its extents alone decide: ranges of rows form
// their own sums, which a second launch adds in the order of their number.
#ifndef TOST_CUDA_COLUMN_SUMS_CUH_
#define TOST_CUDA_COLUMN_SUMS_CUH_

#include "cuda/collectives.cuh"
#include "cuda/elements.cuh"

namespace tost::cuda {

inline constexpr int kColumnSumWarps = 16;
inline constexpr int kColumnSumThreads = kColumnSumWarps * kWarp;

// How [rows, columns] is cut into ranges of rows.
struct RowRanges {
  int64_t length;
  int64_t count;

  // One range where a single launch is done as soon as two, and otherwise as many as fill the
  // largest GPUs once, each with several rows for every warp.
  static RowRanges Of(int64_t rows, int64_t columns) {
    constexpr int64_t kSmall = int64_t{1} << (gpu::kEmulated ? 12 : 19);
    constexpr int64_t kShortest = 4 * kColumnSumWarps, kMost = 128, kFew = 1024;
    if (rows <= kShortest || (rows <= kFew && rows * columns <= kSmall)) return {rows, 1};
    int64_t length = CeilDivide(rows, kMost);
    if (length < kShortest) length = kShortest;
    return {length, CeilDivide(rows, length)};
  }
};

// A block is a range of rows (blockIdx.y) and 32 packs of columns (blockIdx.x); a lane owns a pack
// of columns, and a warp takes every kColumnSumWarps-th row. out[range, c] (+)= Σ over the range's
// rows of body.template Term<kPack>(row, c), which may also write the element's place elsewhere.
template <int kPack, class Body, class S>
__global__ void __launch_bounds__(kColumnSumThreads)
    ColumnSumsKernel(Body body, int64_t rows, int64_t columns, int64_t rows_per_range, bool add,
                     S* __restrict__ out) {
  TOST_SHARED(S, sums, [kColumnSumWarps][kPack][kWarp]);
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int64_t column = (int64_t{blockIdx.x} * kWarp + lane) * kPack;
  const int64_t range = blockIdx.y, first = range * rows_per_range;
  const int64_t last = rows < first + rows_per_range ? rows : first + rows_per_range;
  Numbers<S, kPack> sum{};
  if (column < columns) {
#pragma unroll 4
    for (int64_t row = first + warp; row < last; row += kColumnSumWarps) {
      const Numbers<S, kPack> term = body.template Term<kPack>(row, column);
#pragma unroll
      for (int i = 0; i < kPack; ++i) sum[i] += term[i];
    }
  }
#pragma unroll
  for (int i = 0; i < kPack; ++i) sums[warp][i][lane] = sum[i];
  __syncthreads();
  if (warp != 0 || column >= columns) return;
  for (int w = 1; w < kColumnSumWarps; ++w) {
#pragma unroll
    for (int i = 0; i < kPack; ++i) sum[i] += sums[w][i][lane];
  }
  StoreOrAdd<kPack>(out + range * columns + column, sum, add);
}

// Launches ColumnSumsKernel; out is [ranges.count, columns], 16-byte aligned where packs_fit.
template <int kPack, class Body, class S>
void LaunchColumnSums(bool packs_fit, int64_t rows, int64_t columns, const RowRanges& ranges,
                      bool add, cudaStream_t stream, const Body& body, S* out) {
  const auto launch = [&](auto kernel, int64_t pack) {
    const dim3 grid(static_cast<unsigned>(CeilDivide<int64_t>(columns, pack * kWarp)),
                    static_cast<unsigned>(ranges.count));
    gpu::Launch(kernel, grid, dim3(kColumnSumThreads), 0, stream, body, rows, columns,
                ranges.length, add, out);
  };
  if (packs_fit) {
    launch(&ColumnSumsKernel<kPack, Body, S>, kPack);
  } else {
    launch(&ColumnSumsKernel<1, Body, S>, 1);
  }
}

// The terms x[row, c].
template <class T>
struct MatrixTerms {
  const T* x;
  int64_t columns;

  template <int n>
  __device__ __forceinline__ Numbers<Sum<T>, n> Term(int64_t row, int64_t column) const {
    return LoadNumbers<n>(x + row * columns + column);
  }
};

// out[c] (+)= Σ_r x[r, c]. Reads x once. `partial` has room for [ranges.count, columns] and is not
// used where that is one range.
template <class T>
void SumRowsOnDevice(const T* x, int64_t rows, int64_t columns, const RowRanges& ranges, bool add,
                     Sum<T>* partial, Sum<T>* out, cudaStream_t stream) {
  constexpr int kPack = kPackWidth<T>;
  const MatrixTerms<T> terms{x, columns};
  if (ranges.count == 1) {
    // A small matrix: narrow columns make more blocks.
    LaunchColumnSums<1>(false, rows, columns, ranges, add, stream, terms, out);
    return;
  }
  LaunchColumnSums<kPack>(PacksFit<T>(columns, x, partial), rows, columns, ranges, false, stream,
                          terms, partial);
  LaunchColumnSums<1>(false, ranges.count, columns, RowRanges{ranges.count, 1}, add, stream,
                      MatrixTerms<Sum<T>>{partial, columns}, out);
}

}  // namespace tost::cuda

#endif  // TOST_CUDA_COLUMN_SUMS_CUH_
