#include "cuda/cumsum.cuh"
#include "cuda/dispatch.h"
#include "cuda/install.h"
#include "cuda/map_tensors.h"
#include "cuda/reduce.cuh"
#include "cuda/runtime.h"
#include "ops/merged_axes.h"
#include "ops/reduce.h"
#include "ops/reduce_functors.h"

namespace tost::cuda {
namespace {

namespace functor = ops::functor;

// Room for numbers between two launches; it may go back as soon as both are queued.
template <class S>
class Scratch {
 public:
  explicit Scratch(Device device) : device_(device) {}
  S* operator()(int64_t count) const {
    tensor_ = Tensor::Empty({count}, kDTypeOf<S>, device_);
    return tensor_.mutable_data<S>();
  }

 private:
  Device device_;
  mutable Tensor tensor_;
};

void AppendAxes(const ops::AxisGroup& group, AxisWalk<1>& walk) {
  for (int i = 0; i < group.rank(); ++i) walk.AddOutermost(group.extent(i), {group.stride(i)});
}

// The plan as the kernels walk it, with the innermost run as the first axis of its kind.
Reduction ReductionOf(const ops::ReducePlan& plan) {
  Reduction work{};
  work.outputs = plan.outputs();
  work.elements = plan.reduced.count() * (plan.inner_kept ? 1 : plan.inner);
  if (work.outputs == 0 || work.elements == 0) return work;
  (plan.inner_kept ? work.kept : work.reduced).AddOutermost(plan.inner, {1});
  AppendAxes(plan.kept, work.kept);
  AppendAxes(plan.reduced, work.reduced);
  return work;
}

template <class F>
void Reduce(const Tensor& x, const Tensor& center, double scale, Tensor& out, bool add) {
  const ops::ReducePlan plan(x.shape(), out.shape());
  const Reduction work = ReductionOf(plan);
  if (work.outputs == 0) return;
  VisitDeviceFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using S = Accumulate<T>;
    VisitDeviceFloat(out.dtype(), [&](auto result) {
      using Out = decltype(result);
      const S* const centers = F::kCentered ? center.data<S>() : nullptr;
      RunReduction<F>(plan.inner_kept ? Layout::kColumn : Layout::kRow, work, plan.inner,
                      x.data<T>(), centers,
                      Results<S, Out>{static_cast<S>(scale), add, out.mutable_data<Out>()},
                      ComputeStream(), Scratch<S>(x.device()));
    });
  });
}

template <class F>
void ReduceBackward(const Tensor& x, const Tensor& center, const Tensor& weight, Tensor& dx,
                    bool add) {
  VisitDeviceFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using S = Accumulate<T>;
    VisitDeviceResult<T>(dx.dtype(), [&](auto out) {
      MapTensors(SlopeOf<F>{}, add, dx.mutable_data<decltype(out)>(), x.shape(), Read<T>(x),
                 Read<S>(center), Read<S>(weight));
    });
  });
}

void Cumsum(const Tensor& x, int axis, bool reverse, Tensor& y, bool add) {
  const Shape& shape = x.shape();
  if (shape.numel() == 0) return;
  VisitDeviceFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    VisitDeviceResult<T>(y.dtype(), [&](auto out) {
      RunCumsum(shape.Before(axis), shape[axis], shape.After(axis), reverse, x.data<T>(), add,
                y.mutable_data<decltype(out)>(), ComputeStream(),
                Scratch<Accumulate<T>>(x.device()));
    });
  });
}

template <class... F>
void InstallForward() {
  (ops::reduce_kernel<F>.Install(DeviceType::kCuda, &Reduce<F>), ...);
}

template <class... F>
void InstallBackward() {
  (ops::reduce_backward_kernel<F>.Install(DeviceType::kCuda, &ReduceBackward<F>), ...);
}

}  // namespace

void InstallReduceKernels() {
  InstallForward<functor::Total, functor::Largest, functor::CountEqual, functor::SquaredDeviation,
                 functor::SumOfExponentials>();
  InstallBackward<functor::Largest, functor::SquaredDeviation, functor::SumOfExponentials>();
  ops::cumsum_kernel.Install(DeviceType::kCuda, &Cumsum);
}

}  // namespace tost::cuda
