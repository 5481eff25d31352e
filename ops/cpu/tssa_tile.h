// What the TSSA kernels share: how tokens are cut into chunks, how chunk sums become running sums,
// and the two places where heads meet, on a tile of one chunk.
//
// A chunk is kChunkTokens tokens of one sequence, the unit of parallel work; its length is fixed,
// so every sum has one order whatever the number of threads. A wave is the set of chunks that take
// each pass together before the next pass begins: small enough to stay in cache, so that only the
// first pass reads memory. Sums carried from chunk to chunk are kept in double.
#ifndef TOST_OPS_CPU_TSSA_TILE_H_
#define TOST_OPS_CPU_TSSA_TILE_H_

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "absl/functional/function_ref.h"
#include "autograd/base/parallel.h"
#include "ops/cpu/lanes.h"
#include "ops/cpu/simd_math.h"
#include "ops/tssa.h"

namespace tost::ops::cpu {

inline constexpr int64_t kChunkTokens = 32;

inline int64_t ChunkCount(const TssaDims& dims) {
  return (dims.tokens + kChunkTokens - 1) / kChunkTokens;
}

struct Chunk {
  int64_t sequence;
  int64_t index;   // sequence · ChunkCount + the number of the chunk in its sequence
  int64_t begin;   // first token
  int64_t tokens;  // kChunkTokens, or fewer at the end of the sequence
  int64_t slot;    // number within the wave, for scratch memory
};

// Chunks [first_chunk, first_chunk + chunks) of some consecutive sequences.
struct Wave {
  int64_t first_sequence;
  int64_t sequences;
  int64_t first_chunk;
  int64_t chunks;
};

enum class Direction { kForward, kReverse };

// Cuts the work of an operator whose chunks depend on the chunks before (kForward) or after
// (kReverse) them.
class Waves {
 public:
  Waves(const TssaDims& dims, bool whole_sequences);

  // The largest number of chunks in a wave.
  int64_t slots() const { return sequences_ * chunks_; }
  void ForEach(Direction direction, absl::FunctionRef<void(const Wave&)> run) const;
  // Runs `pass` on every chunk of the wave, in parallel.
  void Run(const Wave& wave, absl::FunctionRef<void(const Chunk&)> pass) const;

 private:
  TssaDims dims_;
  int64_t grain_;
  int64_t sequences_;
  int64_t chunks_;
};

// `sums` [B, K, width] holds one sum per chunk. Replaces those of the wave by the sums of all
// chunks before (after) them, `carry` [B, width] included, and brings `carry` up to date.
template <class A>
void ScanChunkSums(const TssaDims& dims, const Wave& wave, Direction direction, int64_t width,
                   A* sums, double* carry);

// `totals` [B, width] of the wave's sequences from their chunk sums [B, K, width].
template <class A>
void SumChunks(const TssaDims& dims, const Wave& wave, int64_t width, const A* sums, A* totals);

// Per-thread working memory of at least `count` elements.
template <class A>
A* Scratch(int64_t count) {
  thread_local std::vector<A> memory;
  if (memory.size() < static_cast<size_t>(count)) memory.resize(static_cast<size_t>(count));
  return memory.data();
}

// Rows of w, dy, y and dw as the type of the sums: the row itself, or converted through `buffer`.
// The loops over channels thus exist for float and double only, and bfloat16 is rounded in one
// place.
template <class T, class A>
inline const A* ReadRow(const T* row, int64_t width, A* __restrict buffer) {
  if constexpr (std::is_same_v<T, A>) {
    return row;
  } else {
    for (int64_t i = 0; i < width; ++i) buffer[i] = static_cast<A>(row[i]);
    return buffer;
  }
}
// Where to form a row that FinishRow then stores, or adds to what is there.
template <class T, class A>
inline A* RowToWrite(T* row, bool add, A* buffer) {
  if constexpr (std::is_same_v<T, A>) {
    if (!add) return row;
  }
  return buffer;
}
template <class T, class A>
inline void FinishRow(const A* values, int64_t width, bool add, T* row) {
  if constexpr (std::is_same_v<T, A>) {
    if (add) {
      for (int64_t i = 0; i < width; ++i) row[i] += values[i];
    }
  } else {
    const A* __restrict from = values;
    T* __restrict to = row;
    for (int64_t i = 0; i < width; ++i) {
      to[i].bits = T(add ? static_cast<A>(to[i]) + from[i] : from[i]).bits;
    }
  }
}

// sums += scale · w².
template <class A>
inline void AddSquares(int64_t d, A scale, const A* __restrict w, A* __restrict sums) {
#pragma omp simd
  for (int64_t i = 0; i < d; ++i) sums[i] += scale * (w[i] * w[i]);
}

// Σ w² · weight.
template <class A>
inline A SumWeightedSquares(int64_t d, const A* w_row, const A* weight_row) {
  Lanes<A> sum = {};
  ForLanes<A>(d, [&](auto place) {
    const Lanes<A> w = place.Load(w_row);
    sum += w * w * place.Load(weight_row);
  });
  return SumLanes(sum);
}

// 1/D² of Tssa.
template <class A>
A InverseTssaEnergy(A energy) {
  return 1 / std::max(energy, static_cast<A>(kTssaMinEnergy));
}

// Tiles are [heads][kChunkTokens]: loops over tokens vectorise. Lanes beyond the chunk's tokens
// hold finite values that nobody reads.

// logits → memberships, in place.
template <class A>
void SoftmaxOverHeads(int64_t heads, A* __restrict tile) {
  A largest[kChunkTokens], total[kChunkTokens];
  for (int64_t t = 0; t < kChunkTokens; ++t) largest[t] = tile[t], total[t] = 0;
  for (int64_t h = 1; h < heads; ++h) {
    const A* row = tile + h * kChunkTokens;
    for (int64_t t = 0; t < kChunkTokens; ++t) {
      largest[t] = largest[t] < row[t] ? row[t] : largest[t];
    }
  }
  for (int64_t h = 0; h < heads; ++h) {
    A* row = tile + h * kChunkTokens;
    for (int64_t t = 0; t < kChunkTokens; ++t) {
      row[t] = Exp(row[t] - largest[t]);
      total[t] += row[t];
    }
  }
  for (int64_t t = 0; t < kChunkTokens; ++t) total[t] = 1 / total[t];
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t t = 0; t < kChunkTokens; ++t) tile[h * kChunkTokens + t] *= total[t];
  }
}

// dΠ → da = Π (dΠ − Σ_heads Π dΠ), in place.
template <class A>
void SoftmaxOverHeadsBackward(int64_t heads, const A* __restrict membership, A* __restrict tile) {
  A mean[kChunkTokens] = {};
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t t = 0; t < kChunkTokens; ++t) {
      mean[t] += membership[h * kChunkTokens + t] * tile[h * kChunkTokens + t];
    }
  }
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t t = 0; t < kChunkTokens; ++t) {
      const int64_t at = h * kChunkTokens + t;
      tile[at] = membership[at] * (tile[at] - mean[t]);
    }
  }
}

// Between a tile and rows [tokens, heads] in memory.
template <class A>
void StoreTile(const A* tile, int64_t tokens, int64_t heads, A* rows) {
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t h = 0; h < heads; ++h) rows[t * heads + h] = tile[h * kChunkTokens + t];
  }
}
template <class A>
void LoadTile(const A* rows, int64_t tokens, int64_t heads, A* tile) {
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t t = 0; t < kChunkTokens; ++t) {
      tile[h * kChunkTokens + t] = t < tokens ? rows[t * heads + h] : A{0};
    }
  }
}

// dtemp[h] from its sums per chunk [count, heads], in a fixed order.
template <class A>
void SumTemperatureGradient(const A* sums, int64_t count, int64_t heads, const GradientOut& to) {
  A* out = to.out->mutable_data<A>();
  for (int64_t h = 0; h < heads; ++h) {
    double total = 0;
    for (int64_t k = 0; k < count; ++k) total += static_cast<double>(sums[k * heads + h]);
    out[h] = static_cast<A>(to.add ? out[h] + static_cast<A>(total) : static_cast<A>(total));
  }
}

}  // namespace tost::ops::cpu

#endif  // TOST_OPS_CPU_TSSA_TILE_H_
