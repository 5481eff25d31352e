// What a linear layer does beside its products (ops/linear.h).
#ifndef TOST_CUDA_LINEAR_CUH_
#define TOST_CUDA_LINEAR_CUH_

#include "cuda/elements.cuh"
#include "ops/cpu/simd_math.h"

namespace tost::cuda {

// y[r, c] += bias[c]
template <class T>
struct AddBiasBody {
  int64_t columns;
  const Sum<T>* bias;
  T* y;

  template <int n>
  __device__ __forceinline__ void Apply(int64_t offset) const {
    Numbers<Sum<T>, n> value = LoadPack<n>(y + offset);
    const Numbers<Sum<T>, n> shift = LoadNumbers<n>(bias + offset % columns);
#pragma unroll
    for (int i = 0; i < n; ++i) value[i] += shift[i];
    StorePack<n>(y + offset, value);
  }
};

// Reads and writes y once.
template <class T>
void AddBias(const Sum<T>* bias, int64_t rows, int64_t columns, T* y, cudaStream_t stream) {
  LaunchElements<kPackWidth<T>>(PacksFit<T>(columns, bias, y), rows * columns, stream,
                                AddBiasBody<T>{columns, bias, y});
}

// u[r, c] += bias[c] where there is a bias; y = GELU(u) of the u that is stored, as backward will
// see it.
template <class T>
struct BiasGeluBody {
  int64_t columns;
  const Sum<T>* bias;  // or null
  T* u;
  T* y;

  template <int n>
  __device__ __forceinline__ void Apply(int64_t offset) const {
    Numbers<Sum<T>, n> value = LoadPack<n>(u + offset);
    if (bias != nullptr) {
      const Numbers<Sum<T>, n> shift = LoadNumbers<n>(bias + offset % columns);
#pragma unroll
      for (int i = 0; i < n; ++i) value[i] = Widen(Narrow<T>(value[i] + shift[i]));
      StorePack<n>(u + offset, value);
    }
#pragma unroll
    for (int i = 0; i < n; ++i) value[i] = ops::cpu::GeluErf(value[i]);
    StorePack<n>(y + offset, value);
  }
};

// Reads u once, writes u (with a bias) and y once.
template <class T>
void BiasGelu(const Sum<T>* bias, int64_t rows, int64_t columns, T* u, T* y, cudaStream_t stream) {
  LaunchElements<kPackWidth<T>>(PacksFit<T>(columns, bias, u, y), rows * columns, stream,
                                BiasGeluBody<T>{columns, bias, u, y});
}

// du = dy · GELU′(u)
template <class T>
struct GeluBackwardBody {
  const T* u;
  const T* dy;
  T* du;

  template <int n>
  __device__ __forceinline__ void Apply(int64_t offset) const {
    const Numbers<Sum<T>, n> value = LoadPack<n>(u + offset);
    Numbers<Sum<T>, n> gradient = LoadPack<n>(dy + offset);
#pragma unroll
    for (int i = 0; i < n; ++i) gradient[i] *= ops::cpu::GeluErfGrad(value[i]);
    StorePack<n>(du + offset, gradient);
  }
};

// Reads u and dy once, writes du once.
template <class T>
void GeluBackward(const T* u, const T* dy, int64_t count, T* du, cudaStream_t stream) {
  constexpr int kPack = kPackWidth<T>;
  LaunchElements<kPack>(PacksFit<T>(kPack, u, dy, du), count, stream,
                        GeluBackwardBody<T>{u, dy, du});
}

}  // namespace tost::cuda

#endif  // TOST_CUDA_LINEAR_CUH_
