// What cross-covariance attention (ops/cross_covariance_attention.h) computes beside its products.
#ifndef TOST_CUDA_CROSS_COVARIANCE_CUH_
#define TOST_CUDA_CROSS_COVARIANCE_CUH_

#include "cuda/axis_walk.cuh"
#include "cuda/collectives.cuh"
#include "cuda/elementwise.cuh"
#include "cuda/reduce.cuh"
#include "ops/reduce_functors.h"

namespace tost::cuda {

inline constexpr int kCovarianceThreads = 256;
inline constexpr int kCovarianceWarps = kCovarianceThreads / kWarp;

// qkv is [batch, tokens, 3 · heads · head_dim]; a pair is a sample and a head.
struct CovarianceProblem {
  int64_t batch, tokens;
  int heads, head_dim;
  double min_norm;  // a norm at this bound is a constant

  __host__ __device__ int64_t width() const { return int64_t{heads} * head_dim; }
  __host__ __device__ int64_t pairs() const { return batch * heads; }
};

struct Square : ops::functor::Total {
  template <class S>
  __device__ __forceinline__ static S Map(S x, S) {
    return x * x;
  }
};

struct NormOfSquares {
  double least;
  template <class S>
  __device__ __forceinline__ S operator()(S squares) const {
    const S norm = Sqrt(squares), bound = static_cast<S>(least);
    return norm < bound ? bound : norm;
  }
};

// norms [batch, heads, 2, head_dim]: of each channel of the queries and keys over the tokens.
// scratch as for RunReduction. Reads queries and keys once.
template <class T, class Scratch>
void LaunchChannelNorms(const CovarianceProblem& on, const T* qkv, Sum<T>* norms,
                        cudaStream_t stream, const Scratch& scratch) {
  Reduction work{};
  work.outputs = on.pairs() * 2 * on.head_dim;
  work.elements = on.tokens;
  work.kept.AddOutermost(on.head_dim, {1});
  work.kept.AddOutermost(2, {on.width()});
  work.kept.AddOutermost(on.heads, {on.head_dim});
  work.kept.AddOutermost(on.batch, {on.tokens * 3 * on.width()});
  work.reduced.AddOutermost(on.tokens, {3 * on.width()});
  RunReduction<Square>(Layout::kColumn, work, on.head_dim, qkv, static_cast<const Sum<T>*>(nullptr),
                       Results<Sum<T>, Sum<T>>{Sum<T>(1), false, norms}, stream, scratch);
  AxisWalk<1> walk;
  walk.AddOutermost(work.outputs, {1});
  Map(walk, work.outputs, NormOfSquares{on.min_norm}, false, norms, stream,
      static_cast<const Sum<T>*>(norms));
}

// A warp is a row i of a pair: S[i, j] = G[i, j] / (|q_i| |k_j|) in place, P[i, ·] = softmax(τ S).
// `rounded` is P as the products with activations want it.
template <class T>
__global__ void __launch_bounds__(kCovarianceThreads)
    CovarianceSoftmaxKernel(CovarianceProblem on, const Sum<T>* temperature, const Sum<T>* norms,
                            Sum<T>* correlation, Sum<T>* probabilities, T* rounded) {
  using S = Sum<T>;
  const int lane = threadIdx.x % kWarp, d = on.head_dim;
  const int64_t row = int64_t{blockIdx.x} * kCovarianceWarps + threadIdx.x / kWarp;
  const bool exists = row < on.pairs() * d;
  const int64_t pair = exists ? row / d : 0;
  const int count = exists ? d : 0;
  const S* norm = norms + pair * 2 * d;
  const S tau = temperature[pair % on.heads];
  const S query_norm = norm[exists ? row % d : 0];
  S* s = correlation + row * d;
  S* p = probabilities + row * d;

  S maximum = kLowest<S>;
  for (int j = lane; j < count; j += kWarp) {
    s[j] /= query_norm * norm[d + j];
    maximum = Max(maximum, tau * s[j]);
  }
  maximum = WarpMax(maximum);
  S sum = 0;
  for (int j = lane; j < count; j += kWarp) sum += p[j] = Exp(tau * s[j] - maximum);
  sum = WarpSum(sum);
  for (int j = lane; j < count; j += kWarp) {
    const S probability = p[j] / sum;
    p[j] = probability;
    rounded[row * d + j] = Narrow<T>(probability);
  }
}

// Reads and writes matrices of head_dim² only.
template <class T>
void LaunchCovarianceSoftmax(const CovarianceProblem& on, const Sum<T>* temperature,
                             const Sum<T>* norms, Sum<T>* correlation, Sum<T>* probabilities,
                             T* rounded, cudaStream_t stream) {
  const int64_t blocks = CeilDivide<int64_t>(on.pairs() * on.head_dim, kCovarianceWarps);
  gpu::Launch(CovarianceSoftmaxKernel<T>, dim3(static_cast<unsigned>(blocks)),
              dim3(kCovarianceThreads), 0, stream, on, temperature, norms, correlation,
              probabilities, rounded);
}

// The operands of the softmax's gradient. Matrices are [pairs, head_dim, head_dim].
template <class T>
struct CovarianceGradient {
  const Sum<T>* temperature;
  const Sum<T>* norms;
  const Sum<T>* correlation;
  const Sum<T>* probabilities;
  Sum<T>* matrix;        // dP on entry, dG on return: the gradient of the raw products
  T* rounded;            // dG as the products with activations want it
  T* rounded_p;          // P likewise
  Sum<T>* pull;          // [pairs, 2, head_dim]: what a norm adds to its channel's gradient
  Sum<T>* dtemperature;  // [pairs]
};

// A block is a pair. A warp owns rows of its matrices; then a thread owns columns.
template <class T>
__global__ void __launch_bounds__(kCovarianceThreads)
    CovarianceBackwardKernel(CovarianceProblem on, CovarianceGradient<T> gradient) {
  using S = Sum<T>;
  const int d = on.head_dim;
  const int64_t pair = blockIdx.x, first = pair * d * d;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const S tau = gradient.temperature[pair % on.heads];
  const S* query_norm = gradient.norms + pair * 2 * d;
  const S* key_norm = query_norm + d;
  const S* s = gradient.correlation + first;
  const S* p = gradient.probabilities + first;
  S* dg = gradient.matrix + first;
  S* pull = gradient.pull + pair * 2 * d;
  const auto scaled = [&](S sum, S norm) {
    return norm > static_cast<S>(on.min_norm) ? sum / (norm * norm) : S(0);
  };

  S dtau = 0;
  for (int i = warp; i < d; i += kCovarianceWarps) {
    const int64_t row = int64_t{i} * d;
    S mean = 0;
    for (int j = lane; j < d; j += kWarp) mean += p[row + j] * dg[row + j];
    mean = WarpSum(mean);
    S row_pull = 0;
    for (int j = lane; j < d; j += kWarp) {
      const S dlogit = p[row + j] * (dg[row + j] - mean), ds = tau * dlogit;
      dtau += dlogit * s[row + j];
      row_pull -= ds * s[row + j];
      const S value = ds / (query_norm[i] * key_norm[j]);
      dg[row + j] = value;
      gradient.rounded[first + row + j] = Narrow<T>(value);
      gradient.rounded_p[first + row + j] = Narrow<T>(p[row + j]);
    }
    row_pull = WarpSum(row_pull);
    if (lane == 0) pull[i] = scaled(row_pull, query_norm[i]);
  }
  dtau = BlockSum(dtau);
  if (threadIdx.x == 0) gradient.dtemperature[pair] = dtau;
  for (int j = threadIdx.x; j < d; j += kCovarianceThreads) {
    S column_pull = 0;
    for (int i = 0; i < d; ++i) {
      const int64_t at = int64_t{i} * d + j;
      column_pull -= dg[at] * query_norm[i] * key_norm[j] * s[at];
    }
    pull[d + j] = scaled(column_pull, key_norm[j]);
  }
}

// Reads and writes matrices of head_dim² only.
template <class T>
void LaunchCovarianceBackward(const CovarianceProblem& on, const CovarianceGradient<T>& gradient,
                              cudaStream_t stream) {
  gpu::Launch(CovarianceBackwardKernel<T>, dim3(static_cast<unsigned>(on.pairs())),
              dim3(kCovarianceThreads), 0, stream, on, gradient);
}

// A thread owns a pack of the queries' or keys' gradients: dqkv += pull ⊙ qkv. `packs`: of those in
// a token's row.
template <class T, int kPack>
__global__ void __launch_bounds__(kCovarianceThreads)
    CovariancePullKernel(CovarianceProblem on, Divisor packs, const Sum<T>* pull, const T* qkv,
                         T* dqkv) {
  const int64_t at = int64_t{blockIdx.x} * kCovarianceThreads + threadIdx.x;
  const int64_t token = packs.Quotient(at);
  if (token >= on.batch * on.tokens) return;
  const int channel = static_cast<int>(at - token * packs.value()) * kPack;
  const int width = static_cast<int>(on.width()), d = on.head_dim;
  const int part = channel / width, head = channel % width / d;
  const int64_t pair = token / on.tokens * on.heads + head;
  const Sum<T>* factor = pull + (pair * 2 + part) * d + channel % d;
  const int64_t place = token * 3 * width + channel;
  Numbers<Sum<T>, kPack> numbers = LoadPack<kPack>(qkv + place);
#pragma unroll
  for (int e = 0; e < kPack; ++e) numbers[e] *= factor[e];
  StoreResult<kPack>(dqkv + place, numbers, true);
}

// Reads queries, keys and their gradients once, writes the latter once.
template <class T, int kPack>
void LaunchCovariancePull(const CovarianceProblem& on, const Sum<T>* pull, const T* qkv, T* dqkv,
                          cudaStream_t stream) {
  const int64_t packs = 2 * on.width() / kPack;
  const int64_t blocks = CeilDivide<int64_t>(on.batch * on.tokens * packs, kCovarianceThreads);
  gpu::Launch(CovariancePullKernel<T, kPack>, dim3(static_cast<unsigned>(blocks)),
              dim3(kCovarianceThreads), 0, stream, on, Divisor(packs), pull, qkv, dqkv);
}

}  // namespace tost::cuda

#endif  // TOST_CUDA_CROSS_COVARIANCE_CUH_
