// Softmax attention, forward (ops/attention.h), after Dao et al., FlashAttention (2022).
#ifndef TOST_CUDA_ATTENTION_CUH_
#define TOST_CUDA_ATTENTION_CUH_

#include "cuda/attention_tiles.cuh"

namespace tost::cuda {

// The softmax so far of a thread's queries. The sums are of the thread's own keys only until the
// last tile.
template <class S>
struct RunningSoftmax {
  Numbers<S, kOwn> maximum, sum;

  __device__ RunningSoftmax() {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      maximum[i] = kLowest<S>;
      sum[i] = 0;
    }
  }

  // Turns scores, in powers of two, into weights relative to the new maxima. Returns what earlier
  // sums are to be multiplied with.
  __device__ __forceinline__ Numbers<S, kOwn> Absorb(Scores<S>& scores) {
    Numbers<S, kOwn> decay;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      S high = maximum[i];
#pragma unroll
      for (int j = 0; j < kOwn; ++j) high = Max(high, scores[i][j]);
      high = WarpMax<kTileSide>(high);
      decay[i] = Exp2(maximum[i] - high);
      maximum[i] = high;
      sum[i] *= decay[i];
#pragma unroll
      for (int j = 0; j < kOwn; ++j) {
        scores[i][j] = Exp2(scores[i][j] - high);
        sum[i] += scores[i][j];
      }
    }
    return decay;
  }
};

template <int kDim, class S>
__device__ __forceinline__ void ScaleRows(const Numbers<S, kOwn>& factor, RowSums<S, kDim>& sums) {
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
#pragma unroll
    for (int g = 0; g < kColumnGroups<kDim>; ++g) {
#pragma unroll
      for (int c = 0; c < kColumns<kDim>; ++c) sums[i][g][c] *= factor[i];
    }
  }
}

// A block is 64 queries of one head and walks over the keys that they see, 64 at a time; a thread
// owns 4 × 4 scores of each tile and the sums of 4 queries over kDim / 16 channels.
template <class T, int kDim>
__global__ void __launch_bounds__(kTileThreads, 2)
    AttentionKernel(AttentionProblem on, const T* qkv, T* y, Sum<T>* log_sum) {
  using S = Sum<T>;
  TOST_DYNAMIC_SHARED(S, shared);
  S* queries = shared;
  S* operand = queries + kTileSize<kDim>;  // keys, then values
  S* weights = operand + kTileSize<kDim>;
  const TilePlace place(on);
  const T* head = qkv + place.Qkv(on);
  const S scale = static_cast<S>(kLog2E) / Sqrt(static_cast<S>(on.head_dim));

  RunningSoftmax<S> softmax;
  RowSums<S, kDim> sums{};
  LoadTile<kDim>(on, head, on.row(), place.first, queries);
  const int last_key = on.causal ? place.first + place.rows : on.tokens;
  for (int key = 0; key < last_key; key += kTile) {
    LoadTile<kDim>(on, head + on.width(), on.row(), key, operand);
    __syncthreads();
    Scores<S> scores = RowProducts<kDim>(queries, operand);
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const int seen = KeysSeen(on, place.first, key, i);
#pragma unroll
      for (int j = 0; j < kOwn; ++j) {
        scores[i][j] = OwnKey(j) < seen ? scores[i][j] * scale : kLowest<S>;
      }
    }
    ScaleRows<kDim>(softmax.Absorb(scores), sums);
    if (on.dropout > 0) DropScores(on, place, place.first, key, scores);
    __syncthreads();
    LoadTile<kDim>(on, head + 2 * on.width(), on.row(), key, operand);
    StoreScores(scores, weights);
    __syncthreads();
    AddOverKeys<kDim>(weights, operand, sums);
    __syncthreads();
  }

  Numbers<S, kOwn> factor;
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const S total = WarpSum<kTileSide>(softmax.sum[i]);
    factor[i] = S(1) / total;
    if (TileX() == 0 && OwnQuery(i) < place.rows) {
      log_sum[place.Tokens(on) + place.first + OwnQuery(i)] = softmax.maximum[i] + Log2(total);
    }
  }
  ScaleRows<kDim>(factor, sums);
  StoreRows<kDim>(on, place.rows, S(1), false, sums, y + place.Y(on) + place.first * on.width(),
                  on.width());
}

// Calls launch with the padded head width of the kernels that hold `head_dim` channels.
template <class Launch>
void VisitHeadDim(int head_dim, Launch&& launch) {
  if (head_dim <= 32) return launch.template operator()<32>();
  if (head_dim <= 64) return launch.template operator()<64>();
  launch.template operator()<kMaxHeadDim>();
}

// Reads the queries and writes y once; reads keys and values once for each 64 queries (half of
// that, on average, under the causal mask), out of the cache where a head fits.
template <class T>
void LaunchAttention(const AttentionProblem& on, const T* qkv, T* y, Sum<T>* log_sum,
                     cudaStream_t stream) {
  VisitHeadDim(on.head_dim, [&]<int kDim>() {
    constexpr size_t kBytes = (2 * kTileSize<kDim> + kScoreSize) * sizeof(Sum<T>);
    gpu::Launch(AttentionKernel<T, kDim>, dim3(static_cast<unsigned>(on.blocks())),
                dim3(kTileThreads), kBytes, stream, on, qkv, y, log_sum);
  });
}

}  // namespace tost::cuda

#endif  // TOST_CUDA_ATTENTION_CUH_
