#include "ops/cpu/cross_covariance_attention.h"

#include <algorithm>
#include <cmath>

#include "autograd/base/parallel.h"
#include "ops/cpu/gemm.h"
#include "ops/cpu/simd_math.h"
#include "ops/cross_covariance_attention.h"

namespace tost::ops::cpu {
namespace {

// Calls run(pair) for every sample and head.
template <class Run>
void ForEachPair(const CrossCovarianceDims& d, Run&& run) {
  ParallelFor(d.batch * d.heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t pair = begin; pair < end; ++pair) run(pair);
  });
}

// Where the columns of a pair begin in q; k and v are one and two widths behind.
int64_t FirstColumn(const CrossCovarianceDims& d, int64_t pair) {
  return pair / d.heads * d.tokens * 3 * d.width() + pair % d.heads * d.head_dim;
}

// norms[i] = max(√Σ_n x[n, i]², 1e-12).
template <class T>
void ColumnNorms(const T* x, int64_t rows, int64_t stride, int64_t columns,
                 Accumulate<T>* __restrict norms) {
  using A = Accumulate<T>;
  std::fill_n(norms, columns, A(0));
  for (int64_t n = 0; n < rows; ++n) {
    const T* __restrict row = x + n * stride;
    for (int64_t i = 0; i < columns; ++i) {
      norms[i] += static_cast<A>(row[i]) * static_cast<A>(row[i]);
    }
  }
  for (int64_t i = 0; i < columns; ++i) {
    norms[i] = std::max(std::sqrt(norms[i]), static_cast<A>(kCrossCovarianceMinNorm));
  }
}

template <class A>
void SoftmaxRow(const A* __restrict logits, A scale, int64_t count, A* __restrict out) {
  A largest = scale * logits[0];
  for (int64_t j = 1; j < count; ++j) largest = std::max(largest, scale * logits[j]);
  A sum = 0;
  for (int64_t j = 0; j < count; ++j) sum += out[j] = Exp(scale * logits[j] - largest);
  for (int64_t j = 0; j < count; ++j) out[j] /= sum;
}

// A small matrix as the products with activations want it.
template <class T>
Tensor Rounded(const Accumulate<T>* values, int64_t count) {
  Tensor rounded = Tensor::Empty({count}, kDTypeOf<T>);
  std::transform(values, values + count, rounded.mutable_data<T>(),
                 [](Accumulate<T> value) { return static_cast<T>(value); });
  return rounded;
}

// dx[n, i] += factor[i] x[n, i].
template <class T>
void AddScaledColumns(const T* x, const Accumulate<T>* __restrict factor, int64_t rows,
                      int64_t stride, int64_t columns, T* dx) {
  using A = Accumulate<T>;
  for (int64_t n = 0; n < rows; ++n) {
    const T* __restrict from = x + n * stride;
    T* __restrict to = dx + n * stride;
    for (int64_t i = 0; i < columns; ++i) {
      to[i] = static_cast<T>(static_cast<A>(to[i]) + factor[i] * static_cast<A>(from[i]));
    }
  }
}

}  // namespace

void CrossCovariance(const CrossCovarianceDims& dims, const Tensor& qkv, const Tensor& temperature,
                     Tensor& y, CrossCovarianceSaved& saved) {
  VisitFloat(qkv.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    const int64_t d = dims.head_dim, width = dims.width(), stride = 3 * width;
    const T* data = qkv.data<T>();
    const A* tau = temperature.data<A>();
    T* out = y.mutable_data<T>();
    A* correlations = saved.correlation.mutable_data<A>();
    A* probabilities = saved.probabilities.mutable_data<A>();
    A* all_norms = saved.norms.mutable_data<A>();
    ForEachPair(dims, [&](int64_t pair) {
      const T* q = data + FirstColumn(dims, pair);
      const T *k = q + width, *v = k + width;
      A* norms = all_norms + pair * 2 * d;
      ColumnNorms(q, dims.tokens, stride, d, norms);
      ColumnNorms(k, dims.tokens, stride, d, norms + d);
      A* s = correlations + pair * d * d;
      A* p = probabilities + pair * d * d;
      Gemm(d, d, dims.tokens, MatrixView<T>{q, stride, true}, MatrixView<T>{k, stride}, false, s,
           d);
      for (int64_t i = 0; i < d; ++i) {
        for (int64_t j = 0; j < d; ++j) s[i * d + j] /= norms[i] * norms[d + j];
        SoftmaxRow(s + i * d, tau[pair % dims.heads], d, p + i * d);
      }
      const Tensor rounded = Rounded<T>(p, d * d);
      T* y_pair = out + pair / dims.heads * dims.tokens * width + pair % dims.heads * d;
      Gemm(dims.tokens, d, d, MatrixView<T>{v, stride},
           MatrixView<T>{rounded.template data<T>(), d, true}, false, y_pair, width);
    });
  });
}

void CrossCovarianceBackward(const CrossCovarianceDims& dims, const Tensor& qkv,
                             const Tensor& temperature, const CrossCovarianceSaved& saved,
                             const Tensor& dy, bool add, Tensor* dqkv, Tensor& dtemperature) {
  VisitFloat(qkv.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    const int64_t d = dims.head_dim, width = dims.width(), stride = 3 * width;
    const T *data = qkv.data<T>(), *gradients = dy.data<T>();
    const A *tau = temperature.data<A>(), *all_norms = saved.norms.data<A>();
    const A* correlations = saved.correlation.data<A>();
    const A* probabilities = saved.probabilities.data<A>();
    T* out = dqkv != nullptr ? dqkv->mutable_data<T>() : nullptr;
    A* dtau = dtemperature.mutable_data<A>();
    ForEachPair(dims, [&](int64_t pair) {
      const int64_t first = FirstColumn(dims, pair);
      const T *q = data + first, *k = q + width, *v = k + width;
      const T* g = gradients + pair / dims.heads * dims.tokens * width + pair % dims.heads * d;
      const A *s = correlations + pair * d * d, *p = probabilities + pair * d * d;
      const A *q_norm = all_norms + pair * 2 * d, *k_norm = q_norm + d;
      const A t = tau[pair % dims.heads];

      // dG[i, j] of the raw products G = QᵀK, and the pull of the norms on each channel.
      Tensor scratch = Tensor::Zeros({d * d + 2 * d}, kDTypeOf<A>);
      A* dg = scratch.mutable_data<A>();
      A *q_pull = dg + d * d, *k_pull = q_pull + d;
      Gemm(d, d, dims.tokens, MatrixView<T>{g, width, true}, MatrixView<T>{v, stride}, false, dg,
           d);
      A dt = 0;
      for (int64_t i = 0; i < d; ++i) {
        A mean = 0;
        for (int64_t j = 0; j < d; ++j) mean += p[i * d + j] * dg[i * d + j];
        for (int64_t j = 0; j < d; ++j) {
          const int64_t ij = i * d + j;
          const A dlogit = p[ij] * (dg[ij] - mean), ds = t * dlogit;
          dt += dlogit * s[ij];
          q_pull[i] -= ds * s[ij];
          k_pull[j] -= ds * s[ij];
          dg[ij] = ds / (q_norm[i] * k_norm[j]);
        }
      }
      dtau[pair] = dt;
      if (out == nullptr) return;

      T *dq = out + first, *dk = dq + width, *dv = dk + width;
      const Tensor p_rounded = Rounded<T>(p, d * d), dg_rounded = Rounded<T>(dg, d * d);
      const T *p_t = p_rounded.template data<T>(), *dg_t = dg_rounded.template data<T>();
      Gemm(dims.tokens, d, d, MatrixView<T>{g, width}, MatrixView<T>{p_t, d}, add, dv, stride);
      Gemm(dims.tokens, d, d, MatrixView<T>{k, stride}, MatrixView<T>{dg_t, d, true}, add, dq,
           stride);
      Gemm(dims.tokens, d, d, MatrixView<T>{q, stride}, MatrixView<T>{dg_t, d}, add, dk, stride);
      // A norm at its lower bound is a constant.
      auto pull = [](A sum, A norm) {
        return norm > static_cast<A>(kCrossCovarianceMinNorm) ? sum / (norm * norm) : A(0);
      };
      for (int64_t i = 0; i < d; ++i) {
        q_pull[i] = pull(q_pull[i], q_norm[i]);
        k_pull[i] = pull(k_pull[i], k_norm[i]);
      }
      AddScaledColumns(q, q_pull, dims.tokens, stride, d, dq);
      AddScaledColumns(k, k_pull, dims.tokens, stride, d, dk);
    });
  });
}

}  // namespace tost::ops::cpu
