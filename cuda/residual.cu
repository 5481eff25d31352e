#include "cuda/dispatch.h"
#include "cuda/install.h"
#include "cuda/residual.cuh"
#include "cuda/runtime.h"
#include "ops/residual.h"

namespace tost::cuda {
namespace {

void ScaledResidualOf(const Tensor& x, const Tensor& gamma, const Tensor& y, Tensor& z) {
  VisitDeviceFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    ScaledResidual<T>(x.data<T>(), gamma.defined() ? gamma.data<Sum<T>>() : nullptr, y.data<T>(),
                      x.shape().Rows(), x.shape()[-1], z.mutable_data<T>(), ComputeStream());
  });
}

void ScaledResidualBackwardOf(const Tensor& gamma, const Tensor& y, const Tensor& dz,
                              ops::ScaledResidualGradients& out) {
  VisitDeviceFloat(dz.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const int64_t rows = dz.shape().Rows(), columns = dz.shape()[-1];
    const RowRanges ranges = RowRanges::Of(rows, columns);
    if (out.want_sums) {
      out.gamma_sums = Tensor::Empty({ranges.count, columns}, kDTypeOf<Sum<T>>, dz.device());
    }
    const ScaledResidualTerms<T> terms{.columns = columns,
                                       .gamma = gamma.data<Sum<T>>(),
                                       .y = out.want_sums ? y.data<T>() : nullptr,
                                       .dz = dz.data<T>(),
                                       .add = out.add,
                                       .dy = out.dy.defined() ? out.dy.mutable_data<T>() : nullptr};
    ScaledResidualBackward(terms, rows, ranges,
                           out.want_sums ? out.gamma_sums.mutable_data<Sum<T>>() : nullptr,
                           ComputeStream());
  });
}

void Accumulate(const Tensor& x, bool add, Tensor& out) {
  VisitDeviceFloat(x.dtype(), [&](auto zero) {
    VisitDeviceFloat(out.dtype(), [&](auto out_zero) {
      using T = decltype(zero);
      using Out = decltype(out_zero);
      CopyOrAdd<T, Out>(x.data<T>(), x.numel(), add, out.mutable_data<Out>(), ComputeStream());
    });
  });
}

}  // namespace

void InstallResidualKernels() {
  ops::scaled_residual_kernel.Install(DeviceType::kCuda, &ScaledResidualOf);
  ops::scaled_residual_backward_kernel.Install(DeviceType::kCuda, &ScaledResidualBackwardOf);
  ops::accumulate_kernel.Install(DeviceType::kCuda, &Accumulate);
}

}  // namespace tost::cuda
