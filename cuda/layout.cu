#include "cuda/dispatch.h"
#include "cuda/install.h"
#include "cuda/layout.cuh"
#include "cuda/map_tensors.h"
#include "cuda/runtime.h"
#include "ops/layout.h"
#include "ops/merged_axes.h"

namespace tost::cuda {
namespace {

// Calls run(T{}, Out{}) with the element types of an operand and a result.
template <class Run>
void Dispatch(DType operand, DType result, Run&& run) {
  VisitDeviceFloat(operand, [&](auto from) {
    VisitDeviceResult<decltype(from)>(result, [&](auto to) { run(from, to); });
  });
}

// The operand as the elementwise kernel reads one that broadcasts.
AxisWalk<1> WalkOf(const ops::PermutePlan& plan) {
  AxisWalk<1> walk;
  for (int i = plan.rank - 1; i >= 0; --i) {
    walk.AddOutermost(plan.extents[i], {plan.x_strides[i]});
  }
  return walk;
}

// For a plan whose operand is not contiguous along the last axis: `across` is the one along which
// it is.
Transposition TranspositionOf(const ops::PermutePlan& plan, int64_t* outers) {
  const int last = plan.rank - 1;
  int across = 0;
  while (plan.x_strides[across] != 1) ++across;
  Transposition work{};
  work.across = plan.extents[across];
  work.last = plan.extents[last];
  work.x_last_stride = plan.x_strides[last];
  work.y_across_stride = plan.y_strides[across];
  *outers = 1;
  for (int i = last - 1; i >= 0; --i) {
    if (i == across) continue;
    work.outer.AddOutermost(plan.extents[i], {plan.x_strides[i], plan.y_strides[i]});
    *outers *= plan.extents[i];
  }
  return work;
}

void Permute(const Tensor& x, std::span<const int> axes, Tensor& y, bool add) {
  if (x.numel() == 0) return;
  const ops::PermutePlan plan(x.shape(), axes);
  Dispatch(x.dtype(), y.dtype(), [&](auto from, auto to) {
    const auto* const operand = x.data<decltype(from)>();
    auto* const result = y.mutable_data<decltype(to)>();
    if (plan.x_strides[plan.rank - 1] == 1) {
      Map(WalkOf(plan), x.numel(), Scaled{1}, add, result, ComputeStream(), operand);
    } else {
      int64_t outers = 1;
      const Transposition work = TranspositionOf(plan, &outers);
      Transpose(work, outers, operand, add, result, ComputeStream());
    }
  });
}

void CopyRange(const ops::AxisRange& range, const Tensor& x, Tensor& y, bool add) {
  const int64_t inner = x.shape().After(range.axis);
  const RowCopy work{.rows = x.shape().Before(range.axis),
                     .run = range.count * inner,
                     .x_row = x.shape()[range.axis] * inner,
                     .y_row = y.shape()[range.axis] * inner};
  Dispatch(x.dtype(), y.dtype(), [&](auto from, auto to) {
    Copy(work, x.data<decltype(from)>() + range.x_begin * inner, add,
         y.mutable_data<decltype(to)>() + range.y_begin * inner, ComputeStream());
  });
}

// `many` has the extent of x along the axis, `few` that of the result.
Selection SelectionOf(const Shape& many, const Shape& few, int axis) {
  return {.outer = many.Before(axis),
          .extent = many[axis],
          .count = few[axis],
          .inner = many.After(axis)};
}

void IndexSelect(const Tensor& x, int axis, const Tensor& indices, Tensor& y) {
  if (y.numel() == 0) return;
  VisitDeviceFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    Select(SelectionOf(x.shape(), y.shape(), axis), x.data<T>(), indices.data<int32_t>(),
           y.mutable_data<T>(), ComputeStream());
  });
}

void IndexSelectBackward(const Tensor& dy, int axis, const Tensor& indices, Tensor& dx) {
  if (dx.numel() == 0) return;
  VisitDeviceFloat(dy.dtype(), [&](auto zero) {
    using T = decltype(zero);
    SelectBackward(SelectionOf(dx.shape(), dy.shape(), axis), dy.data<T>(), indices.data<int32_t>(),
                   dx.mutable_data<Accumulate<T>>(), ComputeStream());
  });
}

void Gather(const Tensor& x, int axis, const Tensor& indices, Tensor& y) {
  if (y.numel() == 0) return;
  VisitDeviceFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    GatherByIndex(SelectionOf(x.shape(), y.shape(), axis), x.data<T>(), indices.data<int32_t>(),
                  y.mutable_data<T>(), ComputeStream());
  });
}

void GatherBackward(const Tensor& dy, int axis, const Tensor& indices, Tensor& dx) {
  if (dy.numel() == 0) return;
  VisitDeviceFloat(dy.dtype(), [&](auto zero) {
    using T = decltype(zero);
    GatherByIndexBackward(SelectionOf(dx.shape(), dy.shape(), axis), dy.data<T>(),
                          indices.data<int32_t>(), dx.mutable_data<Accumulate<T>>(),
                          ComputeStream());
  });
}

}  // namespace

void InstallLayoutKernels() {
  using enum DeviceType;
  ops::permute_kernel.Install(kCuda, &Permute);
  ops::copy_range_kernel.Install(kCuda, &CopyRange);
  ops::index_select_kernel.Install(kCuda, &IndexSelect);
  ops::index_select_backward_kernel.Install(kCuda, &IndexSelectBackward);
  ops::gather_kernel.Install(kCuda, &Gather);
  ops::gather_backward_kernel.Install(kCuda, &GatherBackward);
}

}  // namespace tost::cuda
