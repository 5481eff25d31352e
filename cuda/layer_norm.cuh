// Layer normalisation (ops/layer_norm.h). A row lives in the registers of a team of threads, a warp
// or for wide rows the whole block, and is read once.
#ifndef TOST_CUDA_LAYER_NORM_CUH_
#define TOST_CUDA_LAYER_NORM_CUH_

#include "cuda/collectives.cuh"
#include "cuda/elements.cuh"

namespace tost::cuda {

inline constexpr int kNormWarps = 4;          // of a block whose teams are warps
inline constexpr int kNormMostThreads = 512;  // of a block that is one team
// Elements of a row that a thread may hold: more in a warp, where that saves barriers.
inline constexpr int kNormFew = 16, kNormMany = 32;
inline constexpr int64_t kNormMostColumns = kNormMostThreads * kNormFew;

// The threads that share a row.
template <bool kWholeBlock>
struct NormTeam {
  int rank;     // of this thread in its team
  int threads;  // of a team
  int index;    // of the team in the block
  int count;    // of the block's teams

  __device__ __forceinline__ NormTeam()
      : rank(kWholeBlock ? threadIdx.x : threadIdx.x % kWarp),
        threads(kWholeBlock ? blockDim.x : kWarp),
        index(kWholeBlock ? 0 : threadIdx.x / kWarp),
        count(kWholeBlock ? 1 : blockDim.x / kWarp) {}

  template <class S>
  __device__ __forceinline__ static S SumOf(S value) {
    if constexpr (kWholeBlock) {
      return BlockSum(value);
    } else {
      return WarpSum(value);
    }
  }
};

// The first column of the p-th pack of this thread.
template <int kPack, class Team>
__device__ __forceinline__ int NormColumn(const Team& team, int p) {
  return (p * team.threads + team.rank) * kPack;
}

// A team owns a row; a thread owns every team.threads-th pack of it. Means and variances as on the
// CPU: the second pass sums x − m for the rounded first mean m as well, which makes the mean of
// equal values exact and their variance 0.
template <class T, int kPack, int kElements, bool kWholeBlock>
__global__ void __launch_bounds__(kWholeBlock ? kNormMostThreads : kNormWarps* kWarp, 1)
    LayerNormKernel(const T* __restrict__ x, const Sum<T>* __restrict__ weight,
                    const Sum<T>* __restrict__ bias, int64_t rows, int columns, Sum<T> epsilon,
                    T* __restrict__ y, Sum<T>* __restrict__ means, Sum<T>* __restrict__ rstds) {
  using S = Sum<T>;
  constexpr int kPacks = kElements / kPack;
  const NormTeam<kWholeBlock> team;
  const int64_t row = int64_t{blockIdx.x} * team.count + team.index;
  if (row >= rows) return;  // never where the block is a team

  const S width = static_cast<S>(columns);
  Numbers<S, kPack> value[kPacks];
  S sum = 0;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int column = NormColumn<kPack>(team, p);
    if (column < columns) value[p] = LoadPack<kPack>(x + row * columns + column);
  }
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    if (NormColumn<kPack>(team, p) >= columns) continue;
#pragma unroll
    for (int i = 0; i < kPack; ++i) sum += value[p][i];
  }
  const S first = team.SumOf(sum) / width;
  S rest = 0, squares = 0;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    if (NormColumn<kPack>(team, p) >= columns) continue;
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      const S deviation = value[p][i] - first;
      rest += deviation;
      squares += deviation * deviation;
    }
  }
  rest = team.SumOf(rest) / width;
  const S variance = Max(S(0), team.SumOf(squares) / width - rest * rest);
  const S mean = first + rest, rstd = S(1) / Sqrt(variance + epsilon);
  if (team.rank == 0) {
    means[row] = mean;
    rstds[row] = rstd;
  }
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int column = NormColumn<kPack>(team, p);
    if (column >= columns) continue;
    const Numbers<S, kPack> factor = LoadNumbers<kPack>(weight + column);
#pragma unroll
    for (int i = 0; i < kPack; ++i) value[p][i] = (value[p][i] - mean) * rstd * factor[i];
    if (bias != nullptr) {
      const Numbers<S, kPack> shift = LoadNumbers<kPack>(bias + column);
#pragma unroll
      for (int i = 0; i < kPack; ++i) value[p][i] += shift[i];
    }
    StorePack<kPack>(y + row * columns + column, value[p]);
  }
}

template <class T>
struct LayerNormOperands {
  const T* x;
  const T* dy;
  const Sum<T>* weight;
  const Sum<T>* mean;
  const Sum<T>* rstd;
  int64_t rows;
  int columns;
  T* dx;  // null: unwanted
  bool add;
  Sum<T>* weight_sums;  // [ranges, columns]; null: unwanted
  Sum<T>* bias_sums;
};

// This thread's packs of one row and of its gradient, as they lie in memory.
template <class T, int kPack, int kPacks>
struct NormRow {
  Pack<T, kPack> x[kPacks], dy[kPacks];

  template <class Team>
  __device__ __forceinline__ void Load(const LayerNormOperands<T>& in, const Team& team,
                                       int64_t row) {
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int column = NormColumn<kPack>(team, p);
      if (column >= in.columns) continue;
      const int64_t offset = row * in.columns + column;
      x[p] = *reinterpret_cast<const Pack<T, kPack>*>(in.x + offset);
      dy[p] = *reinterpret_cast<const Pack<T, kPack>*>(in.dy + offset);
    }
  }
};

// A block owns a range of rows, its teams take them in turn, and a thread owns the same columns of
// each: their sums for dweight and dbias stay in its registers until the teams' are added in order.
// Where the block is no team its dynamic shared memory is [2, columns].
template <class T, int kPack, int kElements, bool kWholeBlock>
__global__ void __launch_bounds__(kWholeBlock ? kNormMostThreads : kNormWarps* kWarp, 1)
    LayerNormBackwardKernel(LayerNormOperands<T> in, int64_t rows_per_range) {
  using S = Sum<T>;
  constexpr int kPacks = kElements / kPack;
  TOST_DYNAMIC_SHARED(S, shared);
  const NormTeam<kWholeBlock> team;
  const S width = static_cast<S>(in.columns);
  const int64_t begin = int64_t{blockIdx.x} * rows_per_range;
  const int64_t end = in.rows < begin + rows_per_range ? in.rows : begin + rows_per_range;
  Numbers<S, kPack> weight_sum[kPacks] = {}, bias_sum[kPacks] = {};

  for (int64_t row = begin + team.index; row < end; row += team.count) {
    NormRow<T, kPack, kPacks> held;
    held.Load(in, team, row);
    const S mean = in.mean[row], rstd = in.rstd[row];
    S sum = 0, projection = 0;  // Σ g and Σ g x̂, g = dy ⊙ weight
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int column = NormColumn<kPack>(team, p);
      if (column >= in.columns) continue;
      const Numbers<S, kPack> factor = LoadNumbers<kPack>(in.weight + column);
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        const S gradient = Widen(held.dy[p].element[i]);
        const S normal = (Widen(held.x[p].element[i]) - mean) * rstd;
        weight_sum[p][i] += gradient * normal;
        bias_sum[p][i] += gradient;
        const S g = gradient * factor[i];
        sum += g;
        projection += g * normal;
      }
    }
    sum = team.SumOf(sum) / width;
    projection = team.SumOf(projection) / width;
    if (in.dx == nullptr) continue;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int column = NormColumn<kPack>(team, p);
      if (column >= in.columns) continue;
      const Numbers<S, kPack> factor = LoadNumbers<kPack>(in.weight + column);
      Numbers<S, kPack> value;
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        const S normal = (Widen(held.x[p].element[i]) - mean) * rstd;
        value[i] = rstd * (Widen(held.dy[p].element[i]) * factor[i] - sum - normal * projection);
      }
      StoreOrAdd<kPack>(in.dx + row * in.columns + column, value, in.add);
    }
  }

  if (in.weight_sums == nullptr) return;
  const int64_t out = int64_t{blockIdx.x} * in.columns;
  for (int turn = 0; turn < team.count; ++turn) {
    if (turn == team.index) {
      const bool last = turn == team.count - 1;
      S* const weight_to = last ? in.weight_sums + out : shared;
      S* const bias_to = last ? in.bias_sums + out : shared + in.columns;
#pragma unroll
      for (int p = 0; p < kPacks; ++p) {
        const int column = NormColumn<kPack>(team, p);
        if (column >= in.columns) continue;
        if (turn > 0) {
          const Numbers<S, kPack> weight_before = LoadNumbers<kPack>(shared + column);
          const Numbers<S, kPack> bias_before = LoadNumbers<kPack>(shared + in.columns + column);
#pragma unroll
          for (int i = 0; i < kPack; ++i) {
            weight_sum[p][i] = weight_before[i] + weight_sum[p][i];
            bias_sum[p][i] = bias_before[i] + bias_sum[p][i];
          }
        }
        StoreNumbers<kPack>(weight_to + column, weight_sum[p]);
        StoreNumbers<kPack>(bias_to + column, bias_sum[p]);
      }
    }
    __syncthreads();
  }
}

// Calls run with the template arguments <kPack, kElements, kWholeBlock> that suit rows of so many
// columns, and the threads of a block.
template <class T, class Run>
void WithNormTeam(int columns, bool packs_fit, Run&& run) {
  constexpr int kWide = kPackWidth<T>;
  const auto with_pack = [&]<int kPack>() {
    if (columns <= kWarp * kNormFew) {
      return run.template operator()<kPack, kNormFew, false>(kNormWarps * kWarp);
    }
    if constexpr (kPack > 1) {
      if (columns <= kWarp * kNormMany) {
        return run.template operator()<kPack, kNormMany, false>(kNormWarps * kWarp);
      }
    }
    const int threads = CeilDivide(columns, kNormFew * kWarp) * kWarp;
    run.template operator()<kPack, kNormFew, true>(threads);
  };
  if (packs_fit) {
    with_pack.template operator()<kWide>();
  } else {
    with_pack.template operator()<1>();
  }
}

// Reads x once, writes y once. columns <= kNormMostColumns.
template <class T>
void LayerNorm(const T* x, const Sum<T>* weight, const Sum<T>* bias, int64_t rows, int columns,
               double epsilon, T* y, Sum<T>* mean, Sum<T>* rstd, cudaStream_t stream) {
  WithNormTeam<T>(columns, PacksFit<T>(columns, x, weight, bias, y),
                  [&]<int kPack, int kElements, bool kWholeBlock>(int threads) {
                    const int64_t blocks = CeilDivide<int64_t>(rows, kWholeBlock ? 1 : kNormWarps);
                    gpu::Launch(&LayerNormKernel<T, kPack, kElements, kWholeBlock>,
                                dim3(static_cast<unsigned>(blocks)),
                                dim3(static_cast<unsigned>(threads)), 0, stream, x, weight, bias,
                                rows, columns, static_cast<Sum<T>>(epsilon), y, mean, rstd);
                  });
}

// Ranges of rows whose sums are formed together: at least four rows for every warp of a block, and
// no more ranges than the largest GPUs hold at once.
inline int64_t NormRowsPerRange(int64_t rows) {
  constexpr int64_t kMostRanges = 512, kShortest = 4 * kNormWarps;
  const int64_t length = CeilDivide(rows, kMostRanges);
  return length < kShortest ? kShortest : length;
}
inline int64_t NormRanges(int64_t rows) {
  return rows == 0 ? 1 : CeilDivide(rows, NormRowsPerRange(rows));
}

// Reads x and dy once, writes dx once (and reads it to add).
template <class T>
void LayerNormBackward(const LayerNormOperands<T>& in, cudaStream_t stream) {
  const bool packs_fit =
      PacksFit<T>(in.columns, in.x, in.dy, in.weight, in.dx, in.weight_sums, in.bias_sums);
  WithNormTeam<T>(in.columns, packs_fit,
                  [&]<int kPack, int kElements, bool kWholeBlock>(int threads) {
                    // A block of one team has nothing to share but declares the array as well.
                    const int64_t numbers = kWholeBlock ? 1 : 2 * in.columns;
                    const size_t shared = sizeof(Sum<T>) * static_cast<size_t>(numbers);
                    gpu::Launch(&LayerNormBackwardKernel<T, kPack, kElements, kWholeBlock>,
                                dim3(static_cast<unsigned>(NormRanges(in.rows))),
                                dim3(static_cast<unsigned>(threads)), shared, stream, in,
                                NormRowsPerRange(in.rows));
                  });
}

}  // namespace tost::cuda

#endif  // TOST_CUDA_LAYER_NORM_CUH_
