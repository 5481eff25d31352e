#include "ops/cpu/class_attention.h"

#include <algorithm>
#include <cmath>

#include "autograd/base/parallel.h"
#include "ops/class_attention.h"
#include "ops/cpu/simd_math.h"

namespace tost::ops::cpu {
namespace {

template <class T>
Accumulate<T> Dot(const T* __restrict a, const T* __restrict b, int64_t count) {
  using A = Accumulate<T>;
  A sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += static_cast<A>(a[i]) * static_cast<A>(b[i]);
  return sum;
}

// scores → softmax of them, in place.
template <class A>
void SoftmaxInPlace(A* scores, int64_t count) {
  const A largest = *std::max_element(scores, scores + count);
  A sum = 0;
  for (int64_t n = 0; n < count; ++n) sum += scores[n] = Exp(scores[n] - largest);
  for (int64_t n = 0; n < count; ++n) scores[n] /= sum;
}

// Calls run(q, k, v, row) for every sample and head: its columns of token 0, and the number of the
// pair. Tokens are 3C apart.
template <class Run>
void ForEachHead(const ClassAttentionDims& d, Run&& run) {
  ParallelFor(d.batch * d.heads, RowGrain(2 * d.tokens * d.head_dim),
              [&](int64_t begin, int64_t end) {
                for (int64_t pair = begin; pair < end; ++pair) {
                  const int64_t sample = pair / d.heads * d.tokens * 3 * d.width();
                  const int64_t q = sample + pair % d.heads * d.head_dim;
                  run(q, q + d.width(), q + 2 * d.width(), pair);
                }
              });
}

}  // namespace

void ClassAttention(const ClassAttentionDims& d, const Tensor& qkv, Tensor& y, Tensor& p) {
  VisitFloat(qkv.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    const T* data = qkv.data<T>();
    T* out = y.mutable_data<T>();
    A* probabilities = p.mutable_data<A>();
    const int64_t stride = 3 * d.width();
    const A scale = 1 / std::sqrt(static_cast<A>(d.head_dim));
    ForEachHead(d, [&](int64_t q, int64_t k, int64_t v, int64_t pair) {
      A* row = probabilities + pair * d.tokens;
      for (int64_t n = 0; n < d.tokens; ++n) {
        row[n] = scale * Dot(data + q, data + k + n * stride, d.head_dim);
      }
      SoftmaxInPlace(row, d.tokens);
      Tensor sums = Tensor::Zeros({d.head_dim}, kDTypeOf<A>);
      A* __restrict sum = sums.mutable_data<A>();
      for (int64_t n = 0; n < d.tokens; ++n) {
        const T* __restrict value = data + v + n * stride;
        for (int64_t i = 0; i < d.head_dim; ++i) sum[i] += row[n] * static_cast<A>(value[i]);
      }
      std::transform(sum, sum + d.head_dim, out + pair * d.head_dim,
                     [](A s) { return static_cast<T>(s); });
    });
  });
}

void ClassAttentionBackward(const ClassAttentionDims& d, const Tensor& qkv, const Tensor& p,
                            const Tensor& dy, bool add, Tensor& dqkv) {
  VisitFloat(qkv.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    const T *data = qkv.data<T>(), *gradients = dy.data<T>();
    const A* probabilities = p.data<A>();
    T* out = dqkv.mutable_data<T>();
    const int64_t stride = 3 * d.width();
    const A scale = 1 / std::sqrt(static_cast<A>(d.head_dim));
    auto put = [add](T& place, A value) {
      place = static_cast<T>(add ? static_cast<A>(place) + value : value);
    };
    ForEachHead(d, [&](int64_t q, int64_t k, int64_t v, int64_t pair) {
      const T* __restrict g = gradients + pair * d.head_dim;
      const A* row = probabilities + pair * d.tokens;
      // ds[n] = p[n] (dp[n] − Σ p dp), dp[n] = dy · v[n].
      Tensor scratch = Tensor::Zeros({d.tokens + d.head_dim}, kDTypeOf<A>);
      A *ds = scratch.mutable_data<A>(), *dq = ds + d.tokens;
      A mean = 0;
      for (int64_t n = 0; n < d.tokens; ++n) {
        ds[n] = Dot(g, data + v + n * stride, d.head_dim);
        mean += row[n] * ds[n];
      }
      for (int64_t n = 0; n < d.tokens; ++n) ds[n] = scale * row[n] * (ds[n] - mean);
      for (int64_t n = 0; n < d.tokens; ++n) {
        const int64_t at = n * stride;
        for (int64_t i = 0; i < d.head_dim; ++i) {
          dq[i] += ds[n] * static_cast<A>(data[k + at + i]);
          put(out[k + at + i], ds[n] * static_cast<A>(data[q + i]));
          put(out[v + at + i], row[n] * static_cast<A>(g[i]));
          if (n > 0 && !add) out[q + at + i] = T(0);
        }
      }
      for (int64_t i = 0; i < d.head_dim; ++i) put(out[q + i], dq[i]);
    });
  });
}

}  // namespace tost::ops::cpu
