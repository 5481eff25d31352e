// What the forward and backward kernels of attention share: the layout of a head inside qkv, and
// the packing of its rows into aligned tiles.
//
// A score tile is held transposed, [keys, queries]: maxima and sums over the keys then run down the
// rows, one query per vector lane, and need no shuffles.
#ifndef TOST_OPS_CPU_ATTENTION_TILES_H_
#define TOST_OPS_CPU_ATTENTION_TILES_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "autograd/base/dtype.h"
#include "ops/attention.h"
#include "ops/cpu/simd_math.h"
#include "ops/cpu/tile_product.h"

namespace tost::ops::cpu {

inline constexpr int64_t kQueries = 64;  // of a score tile
inline constexpr int64_t kKeys = 64;     // of a score tile: 16 KiB in float32, half an L1 cache

inline constexpr double kLog2E = 1.4426950408889634;

template <class T>
using Vector = typename VectorOf<T>::Type;

// Vectors in a row of a score tile.
template <class T>
inline constexpr int kTileVectors = static_cast<int>(kQueries) / kLanes<T>;

// 2^x, lane by lane, for scores relative to (about) their maximum: x is at most slightly above 0.
// Cheaper than Exp, and the factor log2(e) costs nothing where the scores are scaled by 1/√d
// anyway. float32: relative error 2e-7; 0 where the result is below 2^-126. x = n + r with |r| ≤ ½
// and a polynomial for 2^r.
inline Vector<float> Exp2(Vector<float> x) {
  typedef int32_t Integers __attribute__((vector_size(kVectorBytes), may_alias));
  constexpr float kRound = 12582912.0f;  // 1.5 · 2^23: adding it leaves the nearest integer
  const Vector<float> shifted = x + kRound;
  const Vector<float> r = x - (shifted - kRound);
  Vector<float> p = r * 1.3264727e-3f + 9.6715126e-3f;
  p = p * r + 5.5507337e-2f;
  p = p * r + 2.4022242e-1f;
  p = p * r + 6.9314698e-1f;
  p = p * r + 1.0f;
  // Adding n to the exponent field multiplies with 2^n.
  const Integers scaled =
      reinterpret_cast<Integers>(p) + (reinterpret_cast<Integers>(shifted) << 23);
  return x < -126.0f ? Vector<float>{} : reinterpret_cast<Vector<float>>(scaled);
}
inline Vector<double> Exp2(Vector<double> x) {
  for (int lane = 0; lane < kLanes<double>; ++lane) x[lane] = std::exp2(x[lane]);
  return x;
}

inline int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct AttentionDims {
  int64_t batch, tokens, heads, head_dim;
  int64_t padded;  // head_dim, rounded up to whole vectors

  int64_t width() const { return heads * head_dim; }
};

template <class T>
AttentionDims DimsOf(const Shape& qkv, int heads) {
  constexpr int64_t kWhole = kLanes<Accumulate<T>>;
  const int64_t head_dim = qkv[-1] / (3 * heads);
  return {qkv[0], qkv.rank() == 3 ? qkv[1] : 1, heads, head_dim,
          CeilDiv(head_dim, kWhole) * kWhole};
}

// Aligned tiles out of one buffer, which goes back to the allocator's cache with this object.
template <class T>
class TileScratch {
 public:
  explicit TileScratch(int64_t elements)
      : tensor_(Tensor::Empty(Shape{elements}, kDTypeOf<T>)), next_(tensor_.mutable_data<T>()) {}
  // Aligned to vectors as long as every count is a multiple of their length.
  T* Take(int64_t count) {
    T* tile = next_;
    next_ += count;
    return tile;
  }

 private:
  Tensor tensor_;
  T* next_;
};

// to[rows, padded] = scale · from[rows, head_dim], zeros behind.
template <class T>
void Pack(const AttentionDims& dims, const T* from, int64_t stride, int64_t rows,
          Accumulate<T> scale, Accumulate<T>* __restrict to) {
  using A = Accumulate<T>;
  for (int64_t i = 0; i < rows; ++i) {
#pragma omp simd
    for (int64_t c = 0; c < dims.head_dim; ++c) {
      to[i * dims.padded + c] = scale * static_cast<A>(from[i * stride + c]);
    }
    for (int64_t c = dims.head_dim; c < dims.padded; ++c) to[i * dims.padded + c] = 0;
  }
}

// to[head_dim, kQueries] = scale · fromᵀ, zeros in the lanes from `rows` on.
template <class T>
void PackTransposed(const AttentionDims& dims, const T* from, int64_t stride, int64_t rows,
                    Accumulate<T> scale, Accumulate<T>* __restrict to) {
  using A = Accumulate<T>;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t c = 0; c < dims.head_dim; ++c) {
      to[c * kQueries + i] = scale * static_cast<A>(from[i * stride + c]);
    }
  }
  for (int64_t c = 0; c < dims.head_dim; ++c) {
    for (int64_t i = rows; i < kQueries; ++i) to[c * kQueries + i] = 0;
  }
}

// Calls hide(j, lanes) for each key j whose first `lanes` queries lie before it, in a tile that
// begins at query `first_query` and key `first_key`.
template <class Hide>
void ForHidden(int64_t first_query, int64_t first_key, int64_t keys, Hide&& hide) {
  for (int64_t j = std::max<int64_t>(0, first_query + 1 - first_key); j < keys; ++j) {
    hide(j, std::min(kQueries, first_key + j - first_query));
  }
}

// mask[keys, kQueries]: 0 where the weight is dropped, 1 / (1 − dropout) elsewhere. Four weights
// along a query's row share one block of random numbers.
template <class A>
void DropoutTile(const AttentionOptions& options, const AttentionDims& dims, int64_t batch,
                 int64_t head, int64_t first_query, int64_t first_key, int64_t keys, A* mask) {
  const float rate = options.dropout;
  const A kept = A(1) / (A(1) - static_cast<A>(rate));
  int64_t column[kQueries];  // of the first key, per query
  for (int64_t i = 0; i < kQueries; ++i) {
    column[i] = (head * dims.tokens + first_query + i) * dims.tokens + first_key;
  }
  for (int64_t n = 0; 4 * n < keys + 3; ++n) {
    uint32_t words[4][kQueries];
#pragma omp simd
    for (int64_t i = 0; i < kQueries; ++i) {
      const Philox4 random = RandomWords(options.key, batch, column[i] / 4 + n);
      for (int e = 0; e < 4; ++e) words[e][i] = random.word[e];
    }
    for (int64_t e = 0; e < 4; ++e) {
      for (int64_t i = 0; i < kQueries; ++i) {
        const int64_t j = 4 * n + e - column[i] % 4;
        if (j >= 0 && j < keys)
          mask[j * kQueries + i] = UniformOf(words[e][i]) < rate ? A(0) : kept;
      }
    }
  }
}

}  // namespace tost::ops::cpu

#endif  // TOST_OPS_CPU_ATTENTION_TILES_H_
