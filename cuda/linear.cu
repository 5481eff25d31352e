#include "cuda/column_sums.cuh"
#include "cuda/dispatch.h"
#include "cuda/install.h"
#include "cuda/linear.cuh"
#include "cuda/runtime.h"
#include "ops/linear.h"

namespace tost::cuda {
namespace {

int64_t Columns(const Tensor& x) { return x.shape()[-1]; }

void AddBiasOf(const Tensor& bias, Tensor& y) {
  VisitDeviceFloat(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    AddBias<T>(bias.data<Sum<T>>(), y.shape().Rows(), Columns(y), y.mutable_data<T>(),
               ComputeStream());
  });
}

void BiasGeluOf(const Tensor& bias, Tensor& u, Tensor& y) {
  VisitDeviceFloat(u.dtype(), [&](auto zero) {
    using T = decltype(zero);
    BiasGelu<T>(bias.defined() ? bias.data<Sum<T>>() : nullptr, u.shape().Rows(), Columns(u),
                u.mutable_data<T>(), y.mutable_data<T>(), ComputeStream());
  });
}

void LinearGeluBackward(const Tensor& u, const Tensor& dy, Tensor& du) {
  VisitDeviceFloat(u.dtype(), [&](auto zero) {
    using T = decltype(zero);
    GeluBackward<T>(u.data<T>(), dy.data<T>(), u.numel(), du.mutable_data<T>(), ComputeStream());
  });
}

void SumRows(const Tensor& x, bool add, Tensor& out) {
  VisitDeviceFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const int64_t rows = x.shape().Rows(), columns = Columns(x);
    const RowRanges ranges = RowRanges::Of(rows, columns);
    Tensor partial;
    if (ranges.count > 1) {
      partial = Tensor::Empty({ranges.count, columns}, kDTypeOf<Sum<T>>, x.device());
    }
    SumRowsOnDevice<T>(x.data<T>(), rows, columns, ranges, add,
                       partial.defined() ? partial.mutable_data<Sum<T>>() : nullptr,
                       out.mutable_data<Sum<T>>(), ComputeStream());
  });
}

}  // namespace

void InstallLinearKernels() {
  ops::add_bias_kernel.Install(DeviceType::kCuda, &AddBiasOf);
  ops::bias_gelu_kernel.Install(DeviceType::kCuda, &BiasGeluOf);
  ops::linear_gelu_backward_kernel.Install(DeviceType::kCuda, &LinearGeluBackward);
  ops::sum_rows_kernel.Install(DeviceType::kCuda, &SumRows);
}

}  // namespace tost::cuda
