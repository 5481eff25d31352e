#include "autograd/base/parallel.h"
#include "ops/cpu/attention.h"
#include "ops/cpu/attention_tiles.h"

namespace tost::ops::cpu {
namespace {

// Softmax over `count` scores, in place and without the division; returns the denominator.
template <class A>
A ExpScores(int64_t count, A* scores) {
  A maximum = -std::numeric_limits<A>::infinity();
#pragma omp simd reduction(max : maximum)
  for (int64_t t = 0; t < count; ++t) maximum = scores[t] > maximum ? scores[t] : maximum;
  A sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t t = 0; t < count; ++t) {
    scores[t] = Exp(scores[t] - maximum);
    sum += scores[t];
  }
  return sum;
}

// One head: query and out [d], keys and values [count, d].
template <class T>
void StepHead(int64_t head_dim, int64_t count, const T* query, const T* keys, const T* values,
              T* out) {
  using A = Accumulate<T>;
  TileScratch<A> scratch(count + head_dim);
  A* scores = scratch.Take(count);
  A* sums = scratch.Take(head_dim);
  const A scale = A(1) / std::sqrt(static_cast<A>(head_dim));
  for (int64_t t = 0; t < count; ++t) {
    A dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int64_t c = 0; c < head_dim; ++c) {
      dot += static_cast<A>(query[c]) * static_cast<A>(keys[t * head_dim + c]);
    }
    scores[t] = dot * scale;
  }
  const A factor = A(1) / ExpScores(count, scores);
  std::fill_n(sums, head_dim, A(0));
  for (int64_t t = 0; t < count; ++t) {
#pragma omp simd
    for (int64_t c = 0; c < head_dim; ++c) {
      sums[c] += scores[t] * static_cast<A>(values[t * head_dim + c]);
    }
  }
  for (int64_t c = 0; c < head_dim; ++c) out[c] = static_cast<T>(sums[c] * factor);
}

}  // namespace

void AttentionFill(int heads, const Tensor& qkv, int64_t first, KeyValueCache& cache) {
  VisitFloat(qkv.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const AttentionDims dims = DimsOf<T>(qkv.shape(), heads);
    const T* from = qkv.data<T>();
    T* keys = cache.keys.mutable_data<T>();
    T* values = cache.values.mutable_data<T>();
    const int64_t rows = dims.batch * dims.heads * dims.tokens;
    ParallelFor(rows, RowGrain(2 * dims.head_dim), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t token = row % dims.tokens, head = row / dims.tokens;
        const T* k = from + ((head / dims.heads) * dims.tokens + token) * 3 * dims.width() +
                     dims.width() + head % dims.heads * dims.head_dim;
        const int64_t at = (head * cache.capacity + first + token) * dims.head_dim;
        std::copy_n(k, dims.head_dim, keys + at);
        std::copy_n(k + dims.width(), dims.head_dim, values + at);
      }
    });
  });
}

void AttentionStep(int heads, const Tensor& qkv, int64_t count, const KeyValueCache& cache,
                   Tensor& y) {
  VisitFloat(qkv.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const AttentionDims dims = DimsOf<T>(qkv.shape(), heads);
    const T* from = qkv.data<T>();
    const T* keys = cache.keys.data<T>();
    const T* values = cache.values.data<T>();
    T* to = y.mutable_data<T>();
    const int64_t grain = RowGrain(2 * count * dims.head_dim);
    ParallelFor(dims.batch * dims.heads, grain, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t batch = row / dims.heads, channel = row % dims.heads * dims.head_dim;
        const int64_t at = row * cache.capacity * dims.head_dim;
        StepHead(dims.head_dim, count, from + batch * 3 * dims.width() + channel, keys + at,
                 values + at, to + batch * dims.width() + channel);
      }
    });
  });
}

}  // namespace tost::ops::cpu
