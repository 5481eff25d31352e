// The elements of the sparse-coding step (ops/ista.h).
#ifndef TOST_CUDA_ISTA_CUH_
#define TOST_CUDA_ISTA_CUH_

#include "cuda/gpu.h"

namespace tost::cuda {

struct IstaThreshold {
  double step, sparsity;
  template <class S>
  __device__ __forceinline__ S operator()(S z, S m) const {
    const S u = z - static_cast<S>(step) * (m + static_cast<S>(sparsity));
    return u < S(0) ? S(0) : u;
  }
};

struct IstaGradient {
  double step;
  template <class S>
  __device__ __forceinline__ S operator()(S y, S dy) const {
    return (y > S(0) ? -static_cast<S>(step) : S(0)) * dy;
  }
};

struct IstaCombine {
  template <class S>
  __device__ __forceinline__ S operator()(S y, S dy, S n, S e) const {
    return (y > S(0) ? dy : S(0)) - n + e;
  }
};

}  // namespace tost::cuda

#endif  // TOST_CUDA_ISTA_CUH_
