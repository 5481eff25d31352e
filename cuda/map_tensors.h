// The elementwise kernel over tensors.
#ifndef TOST_CUDA_MAP_TENSORS_H_
#define TOST_CUDA_MAP_TENSORS_H_

#include "autograd/tensor.h"
#include "cuda/elementwise.cuh"
#include "cuda/runtime.h"
#include "ops/merged_axes.h"

namespace tost::cuda {

// The axes of a plan (outermost first) as a kernel walks them (innermost first).
template <int n>
AxisWalk<n> WalkOf(const ops::BroadcastPlan<n>& plan) {
  AxisWalk<n> walk;
  for (int axis = plan.rank - 1; axis >= 0; --axis) {
    int64_t strides[n];
    for (int k = 0; k < n; ++k) strides[k] = plan.strides[k][axis];
    walk.AddOutermost(plan.extents[axis], strides);
  }
  return walk;
}

template <class T>
struct TypedOperand {
  const Tensor& tensor;
};
template <class T>
TypedOperand<T> Read(const Tensor& tensor) {
  return {tensor};
}

// out = fn(in…), or += when `add`, the operands broadcast to the shape of `out`:
//   MapTensors(ForwardOf<F>{f}, add, y.mutable_data<T>(), y.shape(), Read<T>(a), Read<T>(b));
template <class Fn, class Out, class... In>
void MapTensors(const Fn& fn, bool add, Out* out, const Shape& shape,
                const TypedOperand<In>&... in) {
  if (shape.numel() == 0) return;
  constexpr int kOperands = sizeof...(In);
  const ops::BroadcastPlan<kOperands> plan(shape, {in.tensor.shape()...});
  Map(WalkOf(plan), shape.numel(), fn, add, out, ComputeStream(), in.tensor.template data<In>()...);
}

}  // namespace tost::cuda

#endif  // TOST_CUDA_MAP_TENSORS_H_
