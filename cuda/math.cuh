// Element types in kernels: the type in which they are summed, conversions, elementary functions.
#ifndef TOST_CUDA_MATH_CUH_
#define TOST_CUDA_MATH_CUH_

#include "cuda/gpu.h"

namespace tost::cuda {

// float for float and bfloat16, double for double: as tost::Accumulate, without its header.
template <class T>
struct SumType {
  using Type = float;
};
template <>
struct SumType<double> {
  using Type = double;
};
template <class T>
using Sum = typename SumType<T>::Type;

__host__ __device__ __forceinline__ float Widen(float x) { return x; }
__host__ __device__ __forceinline__ double Widen(double x) { return x; }
__host__ __device__ __forceinline__ float Widen(bfloat16 x) { return x; }

// Rounds to nearest even where T is narrower. The intrinsic is one instruction on a GPU.
template <class T>
__host__ __device__ __forceinline__ T Narrow(float x) {
  if constexpr (sizeof(T) == sizeof(bfloat16)) {
    const __nv_bfloat16 rounded = __float2bfloat16_rn(x);
    T result;
    __builtin_memcpy(&result, &rounded, sizeof(result));
    return result;
  } else {
    return static_cast<T>(x);
  }
}
template <class T>
__host__ __device__ __forceinline__ T Narrow(double x) {
  if constexpr (sizeof(T) == sizeof(bfloat16)) {
    return Narrow<T>(static_cast<float>(x));
  } else {
    return static_cast<T>(x);
  }
}

__host__ __device__ __forceinline__ float Exp(float x) { return expf(x); }
__host__ __device__ __forceinline__ double Exp(double x) { return exp(x); }
__host__ __device__ __forceinline__ float Log(float x) { return logf(x); }
__host__ __device__ __forceinline__ double Log(double x) { return log(x); }
__host__ __device__ __forceinline__ float Erf(float x) { return erff(x); }
__host__ __device__ __forceinline__ double Erf(double x) { return erf(x); }
__host__ __device__ __forceinline__ float Sqrt(float x) { return sqrtf(x); }
__host__ __device__ __forceinline__ double Sqrt(double x) { return sqrt(x); }
__host__ __device__ __forceinline__ float Abs(float x) { return fabsf(x); }
__host__ __device__ __forceinline__ double Abs(double x) { return fabs(x); }
// The larger and the smaller of two; a NaN gives way to a number.
__host__ __device__ __forceinline__ float Max(float a, float b) { return fmaxf(a, b); }
__host__ __device__ __forceinline__ double Max(double a, double b) { return fmax(a, b); }
__host__ __device__ __forceinline__ float Min(float a, float b) { return fminf(a, b); }
__host__ __device__ __forceinline__ double Min(double a, double b) { return fmin(a, b); }

// Below every number that a softmax sees. Not inf: inf − inf would be NaN.
template <class T>
inline constexpr T kLowest = static_cast<T>(-3.0e38f);

template <class Integer>
__host__ __device__ constexpr Integer CeilDivide(Integer a, Integer b) {
  return (a + b - 1) / b;
}

}  // namespace tost::cuda

#endif  // TOST_CUDA_MATH_CUH_
