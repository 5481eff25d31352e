// What the kernels of softmax attention share: the layout of a head inside qkv, tiles of 64 rows in
// shared memory, and the products of tiles.
//
// A block is 16 × 16 threads. Of a score tile, 64 queries by 64 keys, thread (y, x) owns the
// queries 4y … 4y+3 and the keys x, x+16, x+32, x+48. Tiles lie row by row with four numbers behind
// each row, so that the 16-byte accesses of 8 neighbouring threads, at 8 neighbouring rows or along
// one row, meet different banks.
//
// The products run on the ordinary cores, in float32 from shared memory: 12 wavefronts of shared
// memory for 64 multiply-adds of each thread, which is below what the arithmetic takes. The speed
// of tensor cores is out of reach without inline PTX; the memory is linear in the tokens all the
// same.
#ifndef TOST_CUDA_ATTENTION_TILES_CUH_
#define TOST_CUDA_ATTENTION_TILES_CUH_

#include "autograd/base/philox.h"
#include "cuda/collectives.cuh"
#include "cuda/elementwise.cuh"
#include "cuda/math.cuh"
#include "cuda/numbers.cuh"
#include "cuda/pack.cuh"

namespace tost::cuda {

inline constexpr int kTile = 64;  // queries, and keys, of a score tile
inline constexpr int kTileSide = 16;
inline constexpr int kTileThreads = kTileSide * kTileSide;
inline constexpr int kOwn = kTile / kTileSide;  // queries, and keys, of a thread
inline constexpr int kRowEnd = 4;               // unused numbers behind each row of a tile
inline constexpr int kScoreStride = kTile + kRowEnd;
inline constexpr int kMaxHeadDim = 128;

inline constexpr double kLog2E = 1.4426950408889634;

__host__ __device__ __forceinline__ float Exp2(float x) { return exp2f(x); }
__host__ __device__ __forceinline__ double Exp2(double x) { return exp2(x); }
__host__ __device__ __forceinline__ float Log2(float x) { return log2f(x); }
__host__ __device__ __forceinline__ double Log2(double x) { return log2(x); }

// qkv is [batch, tokens, 3 · heads · head_dim].
struct AttentionProblem {
  int batch, heads, tokens, head_dim;
  bool causal;
  bool packs;  // rows of heads can be read in whole packs
  float dropout;
  RandomKey key;

  __host__ __device__ int64_t width() const { return int64_t{heads} * head_dim; }
  __host__ __device__ int64_t row() const { return 3 * width(); }  // from a token to the next
  __host__ __device__ int tiles() const { return CeilDivide(tokens, kTile); }
  __host__ __device__ int64_t rows() const { return int64_t{batch} * tokens * heads; }
  __host__ __device__ int64_t blocks() const { return int64_t{batch} * heads * tiles(); }
};

template <int kDim>
inline constexpr int kTileStride = kDim + kRowEnd;
template <int kDim>
inline constexpr int kTileSize = kTile* kTileStride<kDim>;
inline constexpr int kScoreSize = kTile * kScoreStride;

// The part of a block: 64 rows of one head. The tiles of a head come from the last to the first:
// under the causal mask the first have the least to do as queries.
struct TilePlace {
  int batch, head, pair, first, rows;

  __device__ explicit TilePlace(const AttentionProblem& on) {
    const int tiles = on.tiles(), block = static_cast<int>(blockIdx.x);
    pair = block / tiles;
    batch = pair / on.heads;
    head = pair % on.heads;
    first = (tiles - 1 - block % tiles) * kTile;
    rows = min(kTile, on.tokens - first);
  }

  // Of the head's query at token 0 in qkv; keys and values are one and two widths behind.
  __device__ int64_t Qkv(const AttentionProblem& on) const {
    return int64_t{batch} * on.tokens * on.row() + head * on.head_dim;
  }
  // Of the head at token 0 in log_sum.
  __device__ int64_t Tokens(const AttentionProblem& on) const { return int64_t{pair} * on.tokens; }
  // Of the head at token 0 in a tensor shaped like y.
  __device__ int64_t Y(const AttentionProblem& on) const {
    return int64_t{batch} * on.tokens * on.width() + head * on.head_dim;
  }
};

__device__ __forceinline__ int TileX() { return static_cast<int>(threadIdx.x) % kTileSide; }
__device__ __forceinline__ int TileY() { return static_cast<int>(threadIdx.x) / kTileSide; }
__device__ __forceinline__ int OwnQuery(int i) { return kOwn * TileY() + i; }
__device__ __forceinline__ int OwnKey(int j) { return TileX() + kTileSide * j; }

// A thread's share of a score tile: [query][key].
template <class S>
using Scores = Numbers<Numbers<S, kOwn>, kOwn>;

// A thread's share of 64 rows of kDim channels: rows 4y … 4y+3, and channels that neighbouring
// threads continue.
template <int kDim>
inline constexpr int kColumns = kDim / kTileSide < kOwn ? kDim / kTileSide : kOwn;
template <int kDim>
inline constexpr int kColumnGroups = kDim / kTileSide / kColumns<kDim>;
template <class S, int kDim>
using RowSums = Numbers<Numbers<Numbers<S, kColumns<kDim>>, kColumnGroups<kDim>>, kOwn>;

template <int kDim>
__device__ __forceinline__ int OwnColumn(int group) {
  return kColumns<kDim> * (TileX() + kTileSide * group);
}

template <int kPack, int kDim, class T>
__device__ __forceinline__ void LoadTileInPacks(const T* from, int64_t stride, int rows,
                                                int head_dim, Sum<T>* to) {
  constexpr int kRowPacks = kDim / kPack, kRows = kTileThreads / kRowPacks;
  const int first = static_cast<int>(threadIdx.x) / kRowPacks;
  const int column = static_cast<int>(threadIdx.x) % kRowPacks * kPack;
  const int end = column < head_dim ? min(kTile, rows) : 0;
  const T* at = from + first * stride + column;
#pragma unroll(kPack > 1 ? 4 : 1)
  for (int row = first; row < kTile; row += kRows, at += kRows * stride) {
    Numbers<Sum<T>, kPack> numbers{};
    if (row < end) numbers = LoadPack<kPack>(at);
    StoreNumbers(to + row * kTileStride<kDim> + column, numbers);
  }
}

// to[64][kDim] = the rows of a head from `first` on, zeros behind the last row and channel. All
// threads of the block call it.
template <int kDim, class T>
__device__ __forceinline__ void LoadTile(const AttentionProblem& on, const T* head, int64_t stride,
                                         int first, Sum<T>* to) {
  const T* from = head + first * stride;
  const int rows = on.tokens - first;
  if (on.packs) {
    LoadTileInPacks<kPackWidth<T>, kDim>(from, stride, rows, on.head_dim, to);
  } else {
    LoadTileInPacks<1, kDim>(from, stride, rows, on.head_dim, to);
  }
}

// Σ_c a[query][c] · b[key][c] over two tiles.
template <int kDim, class S>
__device__ __forceinline__ Scores<S> RowProducts(const S* a, const S* b) {
  Scores<S> sums{};
  const S* left = a + OwnQuery(0) * kTileStride<kDim>;
  const S* right = b + OwnKey(0) * kTileStride<kDim>;
#pragma unroll 1
  for (int c = 0; c < kDim; c += 4) {
    Numbers<S, 4> x[kOwn];
#pragma unroll
    for (int i = 0; i < kOwn; ++i) x[i] = LoadNumbers<4>(left + i * kTileStride<kDim> + c);
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      const auto y = LoadNumbers<4>(right + j * kTileSide * kTileStride<kDim> + c);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
#pragma unroll
        for (int i = 0; i < kOwn; ++i) sums[i][j] += x[i][e] * y[e];
      }
    }
  }
  return sums;
}

template <int kDim, class S>
__device__ __forceinline__ void AddRow(const S* row, const Numbers<S, kOwn>& weight,
                                       RowSums<S, kDim>& sums) {
#pragma unroll
  for (int g = 0; g < kColumnGroups<kDim>; ++g) {
    const auto x = LoadNumbers<kColumns<kDim>>(row + OwnColumn<kDim>(g));
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
#pragma unroll
      for (int c = 0; c < kColumns<kDim>; ++c) sums[i][g][c] += weight[i] * x[c];
    }
  }
}

// sums[query] += Σ_key scores[query][key] · tile[key].
template <int kDim, class S>
__device__ __forceinline__ void AddOverKeys(const S* scores, const S* tile,
                                            RowSums<S, kDim>& sums) {
#pragma unroll 1
  for (int key = 0; key < kTile; key += 4) {
    Numbers<S, 4> weights[kOwn];
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      weights[i] = LoadNumbers<4>(scores + OwnQuery(i) * kScoreStride + key);
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      Numbers<S, kOwn> weight;
#pragma unroll
      for (int i = 0; i < kOwn; ++i) weight[i] = weights[i][e];
      AddRow<kDim>(tile + (key + e) * kTileStride<kDim>, weight, sums);
    }
  }
}

// sums[key] += Σ_query scores[query][key] · tile[query], for the keys 4y … 4y+3.
template <int kDim, class S>
__device__ __forceinline__ void AddOverQueries(const S* scores, const S* tile,
                                               RowSums<S, kDim>& sums) {
#pragma unroll 2
  for (int query = 0; query < kTile; ++query) {
    AddRow<kDim>(tile + query * kTileStride<kDim>,
                 LoadNumbers<kOwn>(scores + query * kScoreStride + OwnQuery(0)), sums);
  }
}

template <class S>
__device__ __forceinline__ void StoreScores(const Scores<S>& scores, S* to) {
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
#pragma unroll
    for (int j = 0; j < kOwn; ++j) to[OwnQuery(i) * kScoreStride + OwnKey(j)] = scores[i][j];
  }
}

template <class S>
__device__ __forceinline__ Scores<S> LoadScores(const S* from) {
  Scores<S> scores;
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
#pragma unroll
    for (int j = 0; j < kOwn; ++j) scores[i][j] = from[OwnQuery(i) * kScoreStride + OwnKey(j)];
  }
  return scores;
}

// to[row] (+)= scale · sums, for the rows and channels that exist.
template <int kDim, class T, class S>
__device__ __forceinline__ void StoreRows(const AttentionProblem& on, int rows, S scale, bool add,
                                          const RowSums<S, kDim>& sums, T* to, int64_t stride) {
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    if (OwnQuery(i) >= rows) continue;
    T* row = to + OwnQuery(i) * stride;
#pragma unroll
    for (int g = 0; g < kColumnGroups<kDim>; ++g) {
      const int column = OwnColumn<kDim>(g);
      Numbers<S, kColumns<kDim>> numbers = sums[i][g];
#pragma unroll
      for (int c = 0; c < kColumns<kDim>; ++c) numbers[c] *= scale;
      if (on.packs) {
        if (column < on.head_dim) StoreResult(row + column, numbers, add);
        continue;
      }
#pragma unroll
      for (int c = 0; c < kColumns<kDim>; ++c) {
        if (column + c < on.head_dim)
          StoreResult(row + column + c, Numbers<S, 1>{{numbers[c]}}, add);
      }
    }
  }
}

// How many keys of the tile that begins at first_key count for the thread's query i.
__device__ __forceinline__ int KeysSeen(const AttentionProblem& on, int first_query, int first_key,
                                        int i) {
  const int query = first_query + OwnQuery(i);
  if (query >= on.tokens) return 0;
  return min(kTile, (on.causal ? query + 1 : on.tokens) - first_key);
}

__device__ __forceinline__ uint32_t WordOf(const Philox4& random, int i) {
  const uint32_t low = i % 2 == 0 ? random.word[0] : random.word[1];
  const uint32_t high = i % 2 == 0 ? random.word[2] : random.word[3];
  return i < 2 ? low : high;
}

// Multiplies the thread's scores by 0 where the weight is dropped and by 1 / (1 − dropout)
// elsewhere. A thread draws for four neighbouring keys, which share their random numbers, of each
// of its queries, and hands the 16 results on as bits. All threads of the block call it.
template <class S>
__device__ __forceinline__ void DropScores(const AttentionProblem& on, const TilePlace& place,
                                           int first_query, int first_key, Scores<S>& scores) {
  unsigned dropped = 0;
#pragma unroll 1
  for (int i = 0; i < kOwn; ++i) {
    const int64_t row = int64_t{place.head} * on.tokens + first_query + OwnQuery(i);
    const int64_t column = row * on.tokens + first_key + 4 * TileX();
    const int shift = static_cast<int>(column % 4);
    const Philox4 here = RandomWords(on.key, place.batch, column / 4);
    const Philox4 next = RandomWords(on.key, place.batch, column / 4 + 1);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const uint32_t word = e + shift < 4 ? WordOf(here, e + shift) : WordOf(next, e + shift - 4);
      dropped |= (UniformOf(word) < on.dropout ? 1u : 0u) << (4 * i + e);
    }
  }
  const S kept = S(1) / (S(1) - static_cast<S>(on.dropout));
  const int half_warp = static_cast<int>(threadIdx.x) % kWarp / kTileSide * kTileSide;
#pragma unroll
  for (int j = 0; j < kOwn; ++j) {
    const int key = OwnKey(j);
    const unsigned bits = __shfl_sync(kAllLanes, dropped, half_warp + key / 4) >> (key % 4);
#pragma unroll
    for (int i = 0; i < kOwn; ++i) scores[i][j] *= (bits >> (4 * i)) % 2 != 0 ? S(0) : kept;
  }
}

}  // namespace tost::cuda

#endif  // TOST_CUDA_ATTENTION_TILES_CUH_
