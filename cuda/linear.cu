#include "cuda/blas.h"
#include "cuda/column_sums.cuh"
#include "cuda/dispatch.h"
#include "cuda/install.h"
#include "cuda/linear.cuh"
#include "cuda/runtime.h"
#include "ops/linear.h"

namespace tost::cuda {
namespace {

int64_t Columns(const Tensor& x) { return x.shape()[-1]; }

// y = x wᵀ, with the bias where the library adds it in the same pass. Whether it has.
bool MultiplyWithBias(const Tensor& x, const Tensor& w, const Tensor& b, Tensor& y) {
  const Product product{.m = y.shape().Rows(),
                        .n = Columns(y),
                        .k = Columns(x),
                        .transpose_b = true,
                        .operands = x.dtype(),
                        .result = y.dtype(),
                        .a_stride = Columns(x),
                        .b_stride = Columns(w),
                        .c_stride = Columns(y)};
  const bool adds = b.defined() && CanAddBias(product, x.raw(), w.raw(), y.raw());
  Multiply(product, x.raw(), w.raw(), adds ? b.raw() : nullptr, y.mutable_raw(), ComputeStream());
  return adds;
}

void Linear(const Tensor& x, const Tensor& w, const Tensor& b, Tensor& y) {
  if (MultiplyWithBias(x, w, b, y) || !b.defined()) return;
  VisitDeviceFloat(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    AddBias<T>(b.data<Sum<T>>(), y.shape().Rows(), Columns(y), y.mutable_data<T>(),
               ComputeStream());
  });
}

void LinearGelu(const Tensor& x, const Tensor& w, const Tensor& b, Tensor& u, Tensor& y) {
  const bool left = !MultiplyWithBias(x, w, b, u) && b.defined();
  VisitDeviceFloat(u.dtype(), [&](auto zero) {
    using T = decltype(zero);
    BiasGelu<T>(left ? b.data<Sum<T>>() : nullptr, u.shape().Rows(), Columns(u),
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
  ops::linear_kernel.Install(DeviceType::kCuda, &Linear);
  ops::linear_gelu_kernel.Install(DeviceType::kCuda, &LinearGelu);
  ops::linear_gelu_backward_kernel.Install(DeviceType::kCuda, &LinearGeluBackward);
  ops::sum_rows_kernel.Install(DeviceType::kCuda, &SumRows);
}

}  // namespace tost::cuda
