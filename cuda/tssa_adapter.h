// From the operands of ops/tssa.h to those of the kernels.
#ifndef TOST_CUDA_TSSA_ADAPTER_H_
#define TOST_CUDA_TSSA_ADAPTER_H_

#include <type_traits>

#include "cuda/dispatch.h"
#include "cuda/tssa_tile.cuh"
#include "ops/tssa.h"

namespace tost::cuda {

inline TssaExtents ExtentsOf(const ops::TssaDims& dims) {
  return {dims.batch, dims.tokens, static_cast<int>(dims.heads), static_cast<int>(dims.head_dim)};
}

// A new tensor of statistics beside w.
inline Tensor TssaTensor(const ops::TssaInputs& in, Shape shape) {
  return Tensor::Empty(shape, AccumulateDType(in.w.dtype()), in.w.device());
}
// A row of sums for each chunk, and for each sequence.
inline Tensor TssaChunkSums(const ops::TssaInputs& in) {
  const TssaExtents extents = ExtentsOf(in.dims);
  return TssaTensor(in, {extents.batch, extents.chunks(), extents.stride()});
}
inline Tensor TssaSequenceSums(const ops::TssaInputs& in) {
  return TssaTensor(in, {in.dims.batch, ExtentsOf(in.dims).stride()});
}

// Null where the operand is absent.
template <class T>
const T* DataOrNull(const Tensor& x) {
  return x.defined() ? x.data<T>() : nullptr;
}
template <class T>
T* DataOrNull(const ops::GradientOut& to) {
  return to.out != nullptr ? to.out->mutable_data<T>() : nullptr;
}

// Calls run(std::integral_constant) with the number of channels that a thread takes: a pack where
// no pack belongs to two heads and all pointers allow it.
template <class T, class Run, class... Pointers>
void WithTssaPack(const ops::TssaInputs& in, Run&& run, const Pointers*... pointers) {
  if (PacksFit<Sum<T>>(in.dims.head_dim, pointers...)) {
    return run(std::integral_constant<int, kTssaPack<T>>{});
  }
  run(std::integral_constant<int, 1>{});
}

}  // namespace tost::cuda

#endif  // TOST_CUDA_TSSA_ADAPTER_H_
