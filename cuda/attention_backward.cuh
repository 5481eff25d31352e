// The gradient of softmax attention (ops/attention.h) without atomics: one kernel owns tiles of
// keys and values, one owns tiles of queries; both compute the weights again from the saved
// logarithms.
//   P = 2^(s − log_sum)    D[i] = Σ_c dy[i, c] y[i, c]    dS = P ⊙ (mask ⊙ dy vᵀ − D)
//   dv = (mask ⊙ P)ᵀ dy    dk = dSᵀ q / √d                dq = dS k / √d
#ifndef TOST_CUDA_ATTENTION_BACKWARD_CUH_
#define TOST_CUDA_ATTENTION_BACKWARD_CUH_

#include "cuda/attention.cuh"
#include "cuda/attention_tiles.cuh"

namespace tost::cuda {

inline constexpr int kDotThreads = 256;

// A warp owns one row of one head: dots[pair][token] = D.
template <class T>
__global__ void __launch_bounds__(kDotThreads)
    AttentionDotsKernel(AttentionProblem on, const T* y, const T* dy, Sum<T>* dots) {
  using S = Sum<T>;
  const int lane = threadIdx.x % kWarp;
  const int64_t row = int64_t{blockIdx.x} * (kDotThreads / kWarp) + threadIdx.x / kWarp;
  const bool exists = row < on.rows();
  S sum = 0;
  for (int c = lane; c < (exists ? on.head_dim : 0); c += kWarp) {
    sum += Widen(y[row * on.head_dim + c]) * Widen(dy[row * on.head_dim + c]);
  }
  sum = WarpSum(sum);
  if (exists && lane == 0) {
    const int64_t token = row / on.heads, head = row % on.heads;
    dots[(token / on.tokens * on.heads + head) * on.tokens + token % on.tokens] = sum;
  }
}

// What both kernels read.
template <class T>
struct AttentionGradient {
  const T* qkv;
  const Sum<T>* log_sum;  // [batch, heads, tokens], as the dots
  const Sum<T>* dots;
  const T* dy;
  T* dqkv;
  bool add;
};

// The numbers at the thread's queries, 0 behind the last.
template <class S>
__device__ __forceinline__ Numbers<S, kOwn> LoadAtQueries(const AttentionProblem& on,
                                                          const S* tokens, int first_query) {
  Numbers<S, kOwn> numbers;
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const int query = first_query + OwnQuery(i);
    numbers[i] = query < on.tokens ? tokens[query] : S(0);
  }
  return numbers;
}

// From q·k to P, 0 where the key is hidden.
template <class S>
__device__ __forceinline__ void ScoresToWeights(const AttentionProblem& on, int first_query,
                                                int first_key, const Numbers<S, kOwn>& log_sum,
                                                Scores<S>& scores) {
  const S scale = static_cast<S>(kLog2E) / Sqrt(static_cast<S>(on.head_dim));
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const int seen = KeysSeen(on, first_query, first_key, i);
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      scores[i][j] = OwnKey(j) < seen ? Exp2(scores[i][j] * scale - log_sum[i]) : S(0);
    }
  }
}

// In both kernels a thread's scores wait in shared memory, at their own places, while the next
// product has the registers.

// A block is 64 keys of one head and walks over the queries that see them, 64 at a time; a thread
// owns 4 × 4 scores of each tile and the gradients of 4 keys and values over kDim / 16 channels.
template <class T, int kDim>
__global__ void __launch_bounds__(kTileThreads, kDim <= 64 ? 2 : 1)
    AttentionKeysBackwardKernel(AttentionProblem on, AttentionGradient<T> gradient) {
  using S = Sum<T>;
  TOST_DYNAMIC_SHARED(S, shared);
  S* keys = shared;
  S* values = keys + kTileSize<kDim>;
  S* operand = values + kTileSize<kDim>;   // queries, dy, queries again
  S* weights = operand + kTileSize<kDim>;  // P, then dS
  const TilePlace place(on);
  const T* head = gradient.qkv + place.Qkv(on);
  const T* dy = gradient.dy + place.Y(on);
  const S* log_sums = gradient.log_sum + place.Tokens(on);
  const S* dots = gradient.dots + place.Tokens(on);

  RowSums<S, kDim> dkeys{}, dvalues{};
  LoadTile<kDim>(on, head + on.width(), on.row(), place.first, keys);
  LoadTile<kDim>(on, head + 2 * on.width(), on.row(), place.first, values);
  for (int query = on.causal ? place.first : 0; query < on.tokens; query += kTile) {
    LoadTile<kDim>(on, head, on.row(), query, operand);
    __syncthreads();
    Scores<S> p = RowProducts<kDim>(operand, keys);
    ScoresToWeights(on, query, place.first, LoadAtQueries(on, log_sums, query), p);
    StoreScores(p, weights);
    __syncthreads();
    LoadTile<kDim>(on, dy, on.width(), query, operand);
    __syncthreads();
    Scores<S> ds = RowProducts<kDim>(operand, values);
    p = LoadScores(weights);
    Scores<S> kept = p;
    if (on.dropout > 0) {
      DropScores(on, place, query, place.first, kept);
      StoreScores(kept, weights);
      __syncthreads();
    }
    const Numbers<S, kOwn> dot = LoadAtQueries(on, dots, query);
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
#pragma unroll
      for (int j = 0; j < kOwn; ++j) ds[i][j] = kept[i][j] * ds[i][j] - p[i][j] * dot[i];
    }
    AddOverQueries<kDim>(weights, operand, dvalues);
    __syncthreads();
    LoadTile<kDim>(on, head, on.row(), query, operand);
    StoreScores(ds, weights);
    __syncthreads();
    AddOverQueries<kDim>(weights, operand, dkeys);
    __syncthreads();
  }

  T* out = gradient.dqkv + place.Qkv(on) + place.first * on.row() + on.width();
  const S scale = S(1) / Sqrt(static_cast<S>(on.head_dim));
  StoreRows<kDim>(on, place.rows, scale, gradient.add, dkeys, out, on.row());
  StoreRows<kDim>(on, place.rows, S(1), gradient.add, dvalues, out + on.width(), on.row());
}

// A block is 64 queries of one head and walks over the keys that they see, 64 at a time; a thread
// owns 4 × 4 scores of each tile and the gradients of 4 queries over kDim / 16 channels.
template <class T, int kDim>
__global__ void __launch_bounds__(kTileThreads, kDim <= 64 ? 2 : 1)
    AttentionQueriesBackwardKernel(AttentionProblem on, AttentionGradient<T> gradient) {
  using S = Sum<T>;
  TOST_DYNAMIC_SHARED(S, shared);
  S* queries = shared;
  S* dy = queries + kTileSize<kDim>;
  S* operand = dy + kTileSize<kDim>;  // values, then keys
  S* weights = operand + kTileSize<kDim>;
  const TilePlace place(on);
  const T* head = gradient.qkv + place.Qkv(on);
  const S* log_sums = gradient.log_sum + place.Tokens(on);
  const S* dots = gradient.dots + place.Tokens(on);

  RowSums<S, kDim> sums{};
  LoadTile<kDim>(on, head, on.row(), place.first, queries);
  LoadTile<kDim>(on, gradient.dy + place.Y(on), on.width(), place.first, dy);
  const int last_key = on.causal ? place.first + place.rows : on.tokens;
  for (int key = 0; key < last_key; key += kTile) {
    LoadTile<kDim>(on, head + 2 * on.width(), on.row(), key, operand);
    __syncthreads();
    Scores<S> ds = RowProducts<kDim>(dy, operand);
    if (on.dropout > 0) DropScores(on, place, place.first, key, ds);
    StoreScores(ds, weights);
    __syncthreads();
    LoadTile<kDim>(on, head + on.width(), on.row(), key, operand);
    __syncthreads();
    Scores<S> p = RowProducts<kDim>(queries, operand);
    ScoresToWeights(on, place.first, key, LoadAtQueries(on, log_sums, place.first), p);
    const Numbers<S, kOwn> dot = LoadAtQueries(on, dots, place.first);
    ds = LoadScores(weights);
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
#pragma unroll
      for (int j = 0; j < kOwn; ++j) ds[i][j] = p[i][j] * (ds[i][j] - dot[i]);
    }
    StoreScores(ds, weights);
    __syncthreads();
    AddOverKeys<kDim>(weights, operand, sums);
    __syncthreads();
  }

  StoreRows<kDim>(on, place.rows, S(1) / Sqrt(static_cast<S>(on.head_dim)), gradient.add, sums,
                  gradient.dqkv + place.Qkv(on) + place.first * on.row(), on.row());
}

// `dots` is scratch, as large as log_sum. Reads y once, dy and each of q, k and v once as a tile of
// its own and once (queries twice) for each 64 rows that it meets; writes dqkv once.
template <class T>
void LaunchAttentionBackward(const AttentionProblem& on, const T* y, Sum<T>* dots,
                             const AttentionGradient<T>& gradient, cudaStream_t stream) {
  const int64_t dot_blocks = CeilDivide<int64_t>(on.rows(), kDotThreads / kWarp);
  gpu::Launch(AttentionDotsKernel<T>, dim3(static_cast<unsigned>(dot_blocks)), dim3(kDotThreads), 0,
              stream, on, y, gradient.dy, dots);
  VisitHeadDim(on.head_dim, [&]<int kDim>() {
    constexpr size_t kBytes = (3 * kTileSize<kDim> + kScoreSize) * sizeof(Sum<T>);
    const dim3 grid(static_cast<unsigned>(on.blocks())), block(kTileThreads);
    gpu::Launch(AttentionKeysBackwardKernel<T, kDim>, grid, block, kBytes, stream, on, gradient);
    gpu::Launch(AttentionQueriesBackwardKernel<T, kDim>, grid, block, kBytes, stream, on, gradient);
  });
}

}  // namespace tost::cuda

#endif  // TOST_CUDA_ATTENTION_BACKWARD_CUH_
