// Attention of the class token (ops/class_attention.h).
#ifndef TOST_CUDA_CLASS_ATTENTION_CUH_
#define TOST_CUDA_CLASS_ATTENTION_CUH_

#include "cuda/elementwise.cuh"
#include "cuda/rows.cuh"

namespace tost::cuda {

// qkv is [batch, tokens, 3 · heads · head_dim].
struct ClassAttentionProblem {
  int64_t batch, tokens;
  int heads, head_dim;

  __host__ __device__ int64_t width() const { return int64_t{heads} * head_dim; }
};

// Where the head of a block lies.
struct ClassHead {
  int64_t pair, query;  // number of the head; its query's first element in qkv
  int64_t stride;       // from a token to the next

  __device__ explicit ClassHead(const ClassAttentionProblem& on)
      : pair(blockIdx.x),
        query(pair / on.heads * on.tokens * 3 * on.width() + pair % on.heads * on.head_dim),
        stride(3 * on.width()) {}

  // Part 1: the keys, 2: the values.
  template <class T>
  __device__ Rows<T> Of(const ClassAttentionProblem& on, const T* qkv, int part) const {
    return {qkv + query + part * on.width(), stride, on.tokens, on.head_dim};
  }
};

// A block is one head; its threads share the tokens for the softmax, tokens and channels for the
// products.
template <class T, int kPack>
__global__ void __launch_bounds__(kGroupThreads)
    ClassAttentionKernel(ClassAttentionProblem on, const T* qkv, T* y, Sum<T>* p) {
  using S = Sum<T>;
  const ClassHead head(on);
  S* weights = p + head.pair * on.tokens;
  const S scale = S(1) / Sqrt(static_cast<S>(on.head_dim));
  RowDots<kPack>(qkv + head.query, head.Of(on, qkv, 1), scale, weights);
  __syncthreads();
  S maximum = kLowest<S>;
  for (int64_t n = threadIdx.x; n < on.tokens; n += kGroupThreads) {
    maximum = Max(maximum, weights[n]);
  }
  maximum = BlockMax(maximum);
  S sum = 0;
  for (int64_t n = threadIdx.x; n < on.tokens; n += kGroupThreads) {
    sum += weights[n] = Exp(weights[n] - maximum);
  }
  sum = BlockSum(sum);
  for (int64_t n = threadIdx.x; n < on.tokens; n += kGroupThreads) weights[n] /= sum;
  __syncthreads();
  WeightedRowSum<kPack>(weights, head.Of(on, qkv, 2), [&](int c, const Numbers<S, kPack>& numbers) {
    StorePack<kPack>(y + head.pair * on.head_dim + c, numbers);
  });
}

// A block is one head. With dp[n] = dy · v[n] and ds = p ⊙ (dp − Σ p dp) / √d:
//   dq[0] = Σ ds[n] k[n]    dk[n] = ds[n] q[0]    dv[n] = p[n] dy    dq[n > 0] = 0
// `ds` is scratch, as large as p.
template <class T, int kPack>
__global__ void __launch_bounds__(kGroupThreads)
    ClassAttentionBackwardKernel(ClassAttentionProblem on, const T* qkv, const Sum<T>* p,
                                 const T* dy, bool add, Sum<T>* ds, T* dqkv) {
  using S = Sum<T>;
  const ClassHead head(on);
  const S* weights = p + head.pair * on.tokens;
  const T* query = qkv + head.query;
  dy += head.pair * on.head_dim;
  ds += head.pair * on.tokens;
  RowDots<kPack>(dy, head.Of(on, qkv, 2), S(1), ds);
  __syncthreads();
  S mean = 0;
  for (int64_t n = threadIdx.x; n < on.tokens; n += kGroupThreads) mean += weights[n] * ds[n];
  mean = BlockSum(mean);
  const S scale = S(1) / Sqrt(static_cast<S>(on.head_dim));
  for (int64_t n = threadIdx.x; n < on.tokens; n += kGroupThreads) {
    ds[n] = scale * weights[n] * (ds[n] - mean);
  }
  __syncthreads();

  const int packs = on.head_dim / kPack;
  for (int64_t at = threadIdx.x; at < on.tokens * packs; at += kGroupThreads) {
    const int64_t n = at / packs;
    const int c = static_cast<int>(at % packs) * kPack;
    T* out = dqkv + head.query + n * head.stride + c;
    Numbers<S, kPack> dk = LoadPack<kPack>(query + c), dv = LoadPack<kPack>(dy + c);
#pragma unroll
    for (int e = 0; e < kPack; ++e) {
      dk[e] *= ds[n];
      dv[e] *= weights[n];
    }
    StoreResult<kPack>(out + on.width(), dk, add);
    StoreResult<kPack>(out + 2 * on.width(), dv, add);
    if (n > 0 && !add) StorePack<kPack>(out, Numbers<S, kPack>{});
  }
  WeightedRowSum<kPack>(ds, head.Of(on, qkv, 1), [&](int c, const Numbers<S, kPack>& numbers) {
    StoreResult<kPack>(dqkv + head.query + c, numbers, add);
  });
}

// Reads keys and values once.
template <class T, int kPack>
void LaunchClassAttention(const ClassAttentionProblem& on, const T* qkv, T* y, Sum<T>* p,
                          cudaStream_t stream) {
  gpu::Launch(ClassAttentionKernel<T, kPack>, dim3(static_cast<unsigned>(on.batch * on.heads)),
              dim3(kGroupThreads), 0, stream, on, qkv, y, p);
}

// Reads keys and values once, writes dqkv once.
template <class T, int kPack>
void LaunchClassAttentionBackward(const ClassAttentionProblem& on, const T* qkv, const Sum<T>* p,
                                  const T* dy, bool add, Sum<T>* ds, T* dqkv, cudaStream_t stream) {
  gpu::Launch(ClassAttentionBackwardKernel<T, kPack>,
              dim3(static_cast<unsigned>(on.batch * on.heads)), dim3(kGroupThreads), 0, stream, on,
              qkv, p, dy, add, ds, dqkv);
}

}  // namespace tost::cuda

#endif  // TOST_CUDA_CLASS_ATTENTION_CUH_
