// Sums of TSSA over chunks: of each chunk, of the chunks before or after it, of whole sequences.
//
// Sums are rows [batch, chunks, stride] (TssaExtents), one number for each channel and head.
#ifndef TOST_CUDA_TSSA_SUMS_CUH_
#define TOST_CUDA_TSSA_SUMS_CUH_

#include "cuda/tssa_tile.cuh"

namespace tost::cuda {

// Σ w² of each chunk. A block is a chunk and some heads, a thread eight tokens of a pack.
template <class T, int kPack>
__global__ void __launch_bounds__(kTssaSomeThreads)
    TssaEnergySums(TssaExtents extents, int heads_per_block, const T* w, Sum<T>* sums) {
  using S = Sum<T>;
  TOST_DYNAMIC_SHARED(S, exchange);
  const TssaBlock<kPack> block(extents, heads_per_block);
  for (int first = 0; first < block.packs; first += block.at_once) {
    const TssaTokens<S, kPack> x = block.Load(block.Place(first), w);
    Numbers<S, kPack> sum{};
#pragma unroll
    for (int t = 0; t < kTssaRowTokens; ++t) {
#pragma unroll
      for (int i = 0; i < kPack; ++i) sum[i] += x(t, i) * x(t, i);
    }
    block.PutRow(exchange, sum);
    __syncthreads();
    block.StoreRowSums(first, exchange, sums + block.SumRow(extents));
    __syncthreads();
  }
}

// Reads w once.
template <class T, int kPack>
void LaunchTssaEnergySums(const TssaExtents& extents, const T* w, Sum<T>* sums,
                          cudaStream_t stream) {
  const TssaLaunch launch(extents, kPack, /*all_heads=*/false);
  gpu::Launch(TssaEnergySums<T, kPack>, launch.grid, launch.block,
              launch.template Shared<Sum<T>>(1, 0, 0), stream, extents, launch.heads, w, sums);
}

// Sums over the tokens before a pass, one for each channel [batch, width] and head [batch, heads]
// of a sequence. Null: zeros, that nobody wants to see brought up to date.
template <class S>
struct TssaCarry {
  S* channels;
  S* heads;

  __device__ S* At(const TssaExtents& extents, int64_t sequence, int column) const {
    const int width = extents.width();
    if (channels == nullptr) return nullptr;
    return column < width ? channels + sequence * width + column
                          : heads + sequence * extents.heads + column - width;
  }
};

inline constexpr int kScanWarps = 32;

// Replaces the sums of each chunk by those over all chunks before it (after it, if kReverse), the
// carry included, and brings the carry up to date. A block is 32 columns of one sequence, a warp a
// stretch of its chunks, a lane a column.
//
// This is the one place where chunks meet. With the tokens split over ranks, the carry is what the
// ranks before hand on.
template <class S, bool kReverse>
__global__ void __launch_bounds__(kScanWarps* kWarp)
    TssaScanChunks(TssaExtents extents, int columns, TssaCarry<S> carry, S* sums) {
  TOST_SHARED(S, totals, [kScanWarps][kWarp]);
  const int groups = CeilDivide(columns, kWarp);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t sequence = static_cast<int>(blockIdx.x) / groups;
  const int column = static_cast<int>(blockIdx.x) % groups * kWarp + lane;
  const bool inside = column < columns;

  const int chunks = extents.chunks();
  const int stretch = CeilDivide(chunks, kScanWarps);
  const int begin = min(warp * stretch, chunks), end = min(begin + stretch, chunks);
  const int64_t stride = extents.stride();
  S* rows = sums + sequence * chunks * stride + column;
  const auto at = [&](int i) { return rows + (kReverse ? chunks - 1 - i : i) * stride; };

  S* const state = inside ? carry.At(extents, sequence, column) : nullptr;
  S before = state != nullptr ? *state : S(0);  // before the barrier: the last warp overwrites it
  S total = S(0);
  if (inside) {
#pragma unroll 8
    for (int i = begin; i < end; ++i) total += *at(i);
  }
  totals[warp][lane] = total;
  __syncthreads();

  for (int i = 0; i < warp; ++i) before += totals[i][lane];
  if (inside) {
#pragma unroll 8
    for (int i = begin; i < end; ++i) {
      const S own = *at(i);
      *at(i) = before;
      before += own;
    }
  }
  if (warp == kScanWarps - 1 && state != nullptr) *state = before;
}

// Reads and writes the first `columns` sums of every chunk; those are 1/32 of w in number.
template <bool kReverse, class S>
void LaunchTssaScan(const TssaExtents& extents, int columns, TssaCarry<S> carry, S* sums,
                    cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(extents.batch * CeilDivide(columns, kWarp));
  gpu::Launch(TssaScanChunks<S, kReverse>, blocks, kScanWarps * kWarp, 0, stream, extents, columns,
              carry, sums);
}

inline constexpr int kTotalWarps = 8;

// totals [batch, stride] of the sums of each chunk. A block is 32 columns of one sequence, a lane a
// column, a warp every eighth chunk.
template <class S>
__global__ void __launch_bounds__(kTotalWarps* kWarp)
    TssaTotals(TssaExtents extents, int columns, const S* sums, S* totals) {
  TOST_SHARED(S, partial, [kTotalWarps][kWarp]);
  const int groups = CeilDivide(columns, kWarp);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t sequence = static_cast<int>(blockIdx.x) / groups;
  const int column = static_cast<int>(blockIdx.x) % groups * kWarp + lane;
  const int chunks = extents.chunks();
  const int64_t stride = extents.stride();
  S total = S(0);
  if (column < columns) {
    const S* rows = sums + sequence * chunks * stride + column;
#pragma unroll 8
    for (int i = warp; i < chunks; i += kTotalWarps) total += rows[i * stride];
  }
  partial[warp][lane] = total;
  __syncthreads();
  if (warp != 0 || column >= columns) return;
  for (int i = 1; i < kTotalWarps; ++i) total += partial[i][lane];
  totals[sequence * stride + column] = total;
}

template <class S>
void LaunchTssaTotals(const TssaExtents& extents, int columns, const S* sums, S* totals,
                      cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(extents.batch * CeilDivide(columns, kWarp));
  gpu::Launch(TssaTotals<S>, blocks, kTotalWarps * kWarp, 0, stream, extents, columns, sums,
              totals);
}

}  // namespace tost::cuda

#endif  // TOST_CUDA_TSSA_SUMS_CUH_
