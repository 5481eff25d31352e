// Numbers in the type of sums, in shared memory or in small vectors: read and written 16 bytes at a
// time where the address allows it.
#ifndef TOST_CUDA_NUMBERS_CUH_
#define TOST_CUDA_NUMBERS_CUH_

#include "cuda/math.cuh"
#include "cuda/pack.cuh"

namespace tost::cuda {

// The numbers of one access: at most 16 bytes.
template <class S, int n>
inline constexpr int kPiece = n < kPackWidth<S> ? n : kPackWidth<S>;

// n numbers, n a power of two; the address is a multiple of an access.
template <int n, class S>
__host__ __device__ __forceinline__ Numbers<S, n> LoadNumbers(const S* from) {
  Numbers<S, n> numbers;
#pragma unroll
  for (int i = 0; i < n; i += kPiece<S, n>) {
    const Numbers<S, kPiece<S, n>> piece = LoadPack<kPiece<S, n>>(from + i);
#pragma unroll
    for (int e = 0; e < kPiece<S, n>; ++e) numbers[i + e] = piece[e];
  }
  return numbers;
}

template <int n, class S>
__host__ __device__ __forceinline__ void StoreNumbers(S* to, const Numbers<S, n>& numbers) {
#pragma unroll
  for (int i = 0; i < n; i += kPiece<S, n>) {
    Numbers<S, kPiece<S, n>> piece;
#pragma unroll
    for (int e = 0; e < kPiece<S, n>; ++e) piece[e] = numbers[i + e];
    StorePack<kPiece<S, n>>(to + i, piece);
  }
}

}  // namespace tost::cuda

#endif  // TOST_CUDA_NUMBERS_CUH_
