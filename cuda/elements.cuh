// Kernels in which every element stands for itself: one kernel, generic over what happens to an
// element.
#ifndef TOST_CUDA_ELEMENTS_CUH_
#define TOST_CUDA_ELEMENTS_CUH_

#include "cuda/gpu.h"
#include "cuda/math.cuh"
#include "cuda/numbers.cuh"
#include "cuda/pack.cuh"

namespace tost::cuda {

inline constexpr int kElementThreads = 256;

// A thread owns kPack neighbouring elements, or one of those at the end that fill no pack.
// body.template Apply<n>(offset) does what is to be done to elements [offset, offset + n).
template <int kPack, class Body>
__global__ void __launch_bounds__(kElementThreads) ElementsKernel(Body body, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * kElementThreads + threadIdx.x;
  const int64_t packs = count / kPack;
  if (i < packs) {
    body.template Apply<kPack>(i * kPack);
  } else if (i < packs + count % kPack) {
    body.template Apply<1>(packs * kPack + (i - packs));
  }
}

// Applies the body to `count` elements, in packs where these fit.
template <int kPack, class Body>
void LaunchElements(bool packs_fit, int64_t count, cudaStream_t stream, const Body& body) {
  const auto launch = [&](auto kernel, int64_t threads) {
    const int64_t blocks = CeilDivide<int64_t>(threads, kElementThreads);
    gpu::Launch(kernel, dim3(static_cast<unsigned>(blocks)), dim3(kElementThreads), 0, stream, body,
                count);
  };
  if (packs_fit) {
    launch(&ElementsKernel<kPack, Body>, count / kPack + count % kPack);
  } else {
    launch(&ElementsKernel<1, Body>, count);
  }
}

}  // namespace tost::cuda

#endif  // TOST_CUDA_ELEMENTS_CUH_
