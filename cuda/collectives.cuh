// What the threads of a warp or a block find out together. All threads of the block (of the warp)
// call these; blockDim.x is a multiple of 32 and the block has one dimension. Each of the block's
// functions ends with a barrier, so that calls may follow each other.
#ifndef TOST_CUDA_COLLECTIVES_CUH_
#define TOST_CUDA_COLLECTIVES_CUH_

#include "cuda/gpu.h"
#include "cuda/math.cuh"

namespace tost::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;
inline constexpr int kMaxWarps = 32;  // of a block

struct Add {
  template <class S>
  __device__ __forceinline__ static S Combine(S a, S b) {
    return a + b;
  }
  template <class S>
  __device__ __forceinline__ static S Identity() {
    return S(0);
  }
};
struct Larger {
  template <class S>
  __device__ __forceinline__ static S Combine(S a, S b) {
    return Max(a, b);
  }
  template <class S>
  __device__ __forceinline__ static S Identity() {
    return kLowest<S>;
  }
};

// The combination over groups of `width` neighbouring lanes (a power of two), in every lane.
template <class Operation, int width = kWarp, class S>
__device__ __forceinline__ S WarpReduce(S value) {
#pragma unroll
  for (int distance = width / 2; distance > 0; distance /= 2) {
    value = Operation::Combine(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}
template <int width = kWarp, class S>
__device__ __forceinline__ S WarpSum(S value) {
  return WarpReduce<Add, width>(value);
}
template <int width = kWarp, class S>
__device__ __forceinline__ S WarpMax(S value) {
  return WarpReduce<Larger, width>(value);
}

// The combination over the block, in every thread.
template <class Operation, class S>
__device__ __forceinline__ S BlockReduce(S value) {
  TOST_SHARED(S, partial, [kMaxWarps]);
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  value = WarpReduce<Operation>(value);
  if (lane == 0) partial[warp] = value;
  __syncthreads();
  value = lane < static_cast<int>(blockDim.x) / kWarp ? partial[lane]
                                                      : Operation::template Identity<S>();
  value = WarpReduce<Operation>(value);
  __syncthreads();
  return value;
}
template <class S>
__device__ __forceinline__ S BlockSum(S value) {
  return BlockReduce<Add>(value);
}
template <class S>
__device__ __forceinline__ S BlockMax(S value) {
  return BlockReduce<Larger>(value);
}

// Σ over the lanes up to and including this one.
template <class S>
__device__ __forceinline__ S WarpInclusiveSum(S value) {
  const int lane = threadIdx.x % kWarp;
#pragma unroll
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const S below = __shfl_up_sync(kAllLanes, value, distance);
    if (lane >= distance) value += below;
  }
  return value;
}

// Σ over the threads up to and including this one.
template <class S>
__device__ __forceinline__ S BlockInclusiveSum(S value) {
  TOST_SHARED(S, totals, [kMaxWarps]);
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  value = WarpInclusiveSum(value);
  if (lane == kWarp - 1) totals[warp] = value;
  __syncthreads();
  S before = S(0);
  for (int i = 0; i < warp; ++i) before += totals[i];
  __syncthreads();
  return before + value;
}

}  // namespace tost::cuda

#endif  // TOST_CUDA_COLLECTIVES_CUH_
