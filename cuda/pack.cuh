// Several neighbouring elements in one memory access.
#ifndef TOST_CUDA_PACK_CUH_
#define TOST_CUDA_PACK_CUH_

#include "cuda/gpu.h"
#include "cuda/math.cuh"

namespace tost::cuda {

// The widest access of a thread is 16 bytes.
inline constexpr int kAccessBytes = 16;
template <class T>
inline constexpr int kPackWidth = kAccessBytes / static_cast<int>(sizeof(T));

// n elements that are read and written at once; the address is a multiple of its size.
template <class T, int n>
struct alignas(sizeof(T) * n) Pack {
  T element[n];
};

// n numbers in registers.
template <class S, int n>
struct Numbers {
  S at[n];
  __host__ __device__ __forceinline__ S& operator[](int i) { return at[i]; }
  __host__ __device__ __forceinline__ const S& operator[](int i) const { return at[i]; }
};

template <int n, class T>
__host__ __device__ __forceinline__ Numbers<Sum<T>, n> LoadPack(const T* from) {
  const Pack<T, n> pack = *reinterpret_cast<const Pack<T, n>*>(from);
  Numbers<Sum<T>, n> numbers;
#pragma unroll
  for (int i = 0; i < n; ++i) numbers[i] = Widen(pack.element[i]);
  return numbers;
}

template <int n, class T, class S>
__host__ __device__ __forceinline__ void StorePack(T* to, const Numbers<S, n>& numbers) {
  Pack<T, n> pack;
#pragma unroll
  for (int i = 0; i < n; ++i) pack.element[i] = Narrow<T>(numbers[i]);
  *reinterpret_cast<Pack<T, n>*>(to) = pack;
}

// The same where the address may not be a multiple of the pack's size: which accesses are possible
// must not change the order in which numbers are summed.
template <int n, class T>
__host__ __device__ __forceinline__ Numbers<Sum<T>, n> LoadNeighbours(const T* from, bool aligned) {
  if (aligned) return LoadPack<n>(from);
  Numbers<Sum<T>, n> numbers;
#pragma unroll
  for (int i = 0; i < n; ++i) numbers[i] = Widen(from[i]);
  return numbers;
}
template <int n, class T, class S>
__host__ __device__ __forceinline__ void StoreNeighbours(T* to, const Numbers<S, n>& numbers,
                                                         bool aligned) {
  if (aligned) return StorePack<n>(to, numbers);
#pragma unroll
  for (int i = 0; i < n; ++i) to[i] = Narrow<T>(numbers[i]);
}

// Whether packs of n elements can be accessed at all of these addresses.
template <int n, class... T>
bool Aligned(const T*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % (n * sizeof(T)) == 0) && ...);
}

// Whether rows of `extent` elements of T at these addresses can be read in whole 16-byte packs.
// Null addresses (absent operands) fit.
template <class T, class... Pointers>
bool PacksFit(int64_t extent, const Pointers*... pointers) {
  return extent % kPackWidth<T> == 0 &&
         ((reinterpret_cast<uintptr_t>(pointers) % kAccessBytes == 0) && ...);
}

// Calls run with the number of elements of an access, as a template argument: a pack of T, or one.
template <class T, class Run>
void VisitPack(bool packs_fit, Run&& run) {
  if (packs_fit) return run.template operator()<kPackWidth<T>>();
  run.template operator()<1>();
}

}  // namespace tost::cuda

#endif  // TOST_CUDA_PACK_CUH_
