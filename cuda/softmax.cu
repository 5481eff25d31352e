#include "cuda/dispatch.h"
#include "cuda/install.h"
#include "cuda/runtime.h"
#include "cuda/softmax.cuh"
#include "ops/softmax.h"

namespace tost::cuda {
namespace {

AxisRows RowsOf(const Shape& shape, int axis) {
  AxisRows work{};
  work.extent = shape[axis];
  work.inner = shape.After(axis);
  work.rows = shape.Before(axis) * work.inner;
  return work;
}

template <class Form>
void Forward(const Tensor& x, int axis, Tensor& y) {
  if (x.numel() == 0) return;
  VisitDeviceFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    RunSoftmax<Form>(RowsOf(x.shape(), axis), x.data<T>(), y.mutable_data<T>(), ComputeStream());
  });
}

template <class Form>
void Backward(const Tensor& y, const Tensor& dy, int axis, Tensor& dx, bool add) {
  if (y.numel() == 0) return;
  VisitDeviceFloat(dy.dtype(), [&](auto zero) {
    using T = decltype(zero);
    VisitDeviceResult<T>(dx.dtype(), [&](auto out) {
      RunSoftmaxBackward<Form>(RowsOf(y.shape(), axis), y.data<T>(), dy.data<T>(), add,
                               dx.mutable_data<decltype(out)>(), ComputeStream());
    });
  });
}

}  // namespace

void InstallSoftmaxKernels() {
  using enum DeviceType;
  ops::softmax_kernel.Install(kCuda, &Forward<SoftmaxForm>);
  ops::log_softmax_kernel.Install(kCuda, &Forward<LogSoftmaxForm>);
  ops::softmax_backward_kernel.Install(kCuda, &Backward<SoftmaxGradient>);
  ops::log_softmax_backward_kernel.Install(kCuda, &Backward<LogSoftmaxGradient>);
}

}  // namespace tost::cuda
