// Several numbers at once, read and written in as few accesses as their addresses allow: operands
// in memory, tiles in shared memory.
#ifndef TOST_CUDA_NUMBERS_CUH_
#define TOST_CUDA_NUMBERS_CUH_

#include "cuda/math.cuh"
#include "cuda/pack.cuh"

namespace tost::cuda {

// n numbers in accesses of at most 16 bytes; `from` is a multiple of the smaller of 16 bytes and
// the numbers' size. For operands wider than the elements that set n, such as float vectors beside
// bfloat16 rows.
template <int n, class T>
__host__ __device__ __forceinline__ Numbers<Sum<T>, n> LoadNumbers(const T* from) {
  constexpr int kPart = n < kPackWidth<T> ? n : kPackWidth<T>;
  Numbers<Sum<T>, n> numbers;
#pragma unroll
  for (int first = 0; first < n; first += kPart) {
    const Numbers<Sum<T>, kPart> part = LoadPack<kPart>(from + first);
#pragma unroll
    for (int i = 0; i < kPart; ++i) numbers[first + i] = part[i];
  }
  return numbers;
}

template <int n, class T, class S>
__host__ __device__ __forceinline__ void StoreNumbers(T* to, const Numbers<S, n>& numbers) {
  constexpr int kPart = n < kPackWidth<T> ? n : kPackWidth<T>;
#pragma unroll
  for (int first = 0; first < n; first += kPart) {
    Numbers<S, kPart> part;
#pragma unroll
    for (int i = 0; i < kPart; ++i) part[i] = numbers[first + i];
    StorePack<kPart>(to + first, part);
  }
}

// Stores numbers, added to what is there when `add`.
template <int n, class T, class S>
__host__ __device__ __forceinline__ void StoreOrAdd(T* to, Numbers<S, n> numbers, bool add) {
  if (add) {
    const Numbers<Sum<T>, n> before = LoadNumbers<n>(to);
#pragma unroll
    for (int i = 0; i < n; ++i) numbers[i] = static_cast<S>(before[i]) + numbers[i];
  }
  StoreNumbers<n>(to, numbers);
}

}  // namespace tost::cuda

#endif  // TOST_CUDA_NUMBERS_CUH_
