// Dropout and stochastic depth (ops/dropout.h).
#ifndef TOST_CUDA_DROPOUT_CUH_
#define TOST_CUDA_DROPOUT_CUH_

#include "autograd/base/philox.h"
#include "cuda/elements.cuh"

namespace tost::cuda {

struct DropoutRule {
  RandomKey key;
  float rate;
  float kept;  // 1 / (1 − rate), the multiplier of what stays
  bool whole_rows;

  __device__ __forceinline__ float Multiplier(uint32_t word) const {
    return UniformOf(word) >= rate ? kept : 0.0f;
  }
};

// One call of the generator gives four multipliers.
inline constexpr int kDraws = 4;
template <class T>
inline constexpr int kDropoutGroup = kPackWidth<T> < kDraws ? kDraws : kPackWidth<T>;

// A thread owns a group of neighbouring columns of one row, drawn together. kPacked: groups are
// whole, and read and written in packs. y (+)= x · multiplier, or the multipliers where x is null.
template <class T, bool kPacked>
__global__ void __launch_bounds__(kElementThreads)
    DropoutKernel(DropoutRule rule, const T* __restrict__ x, int64_t rows, int64_t columns,
                  bool add, T* __restrict__ y) {
  constexpr int kGroup = kDropoutGroup<T>;
  const int64_t groups = CeilDivide<int64_t>(columns, kGroup);
  const int64_t i = int64_t{blockIdx.x} * kElementThreads + threadIdx.x;
  if (i >= rows * groups) return;
  const int64_t row = i / groups, first = i % groups * kGroup;
  const int64_t offset = row * columns + first;
  Numbers<Sum<T>, kGroup> value;
#pragma unroll
  for (int draw = 0; draw < kGroup; draw += kDraws) {
    const Philox4 words = RandomWords(rule.key, row, rule.whole_rows ? 0 : (first + draw) / kDraws);
#pragma unroll
    for (int k = 0; k < kDraws; ++k) {
      value[draw + k] = rule.Multiplier(rule.whole_rows ? words.word[0] : words.word[k]);
    }
  }
  if constexpr (kPacked) {
    if (x != nullptr) {
      const Numbers<Sum<T>, kGroup> in = LoadNumbers<kGroup>(x + offset);
#pragma unroll
      for (int k = 0; k < kGroup; ++k) value[k] *= in[k];
    }
    StoreOrAdd<kGroup>(y + offset, value, add);
  } else {
#pragma unroll
    for (int k = 0; k < kGroup; ++k) {
      if (first + k >= columns) continue;
      const Sum<T> in = x != nullptr ? Widen(x[offset + k]) : Sum<T>(1);
      const Sum<T> before = add ? Widen(y[offset + k]) : Sum<T>(0);
      y[offset + k] = Narrow<T>(before + in * value[k]);
    }
  }
}

// Reads x once (and y to add), writes y once.
template <class T>
void Dropout(const DropoutRule& rule, const T* x, int64_t rows, int64_t columns, bool add, T* y,
             cudaStream_t stream) {
  const bool packed = columns % kDropoutGroup<T> == 0 && PacksFit<T>(columns, x, y);
  const int64_t threads = rows * CeilDivide<int64_t>(columns, kDropoutGroup<T>);
  const dim3 grid(static_cast<unsigned>(CeilDivide<int64_t>(threads, kElementThreads)));
  gpu::Launch(packed ? &DropoutKernel<T, true> : &DropoutKernel<T, false>, grid,
              dim3(kElementThreads), 0, stream, rule, x, rows, columns, add, y);
}

}  // namespace tost::cuda

#endif  // TOST_CUDA_DROPOUT_CUH_
