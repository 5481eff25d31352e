#include "cuda/dispatch.h"
#include "cuda/install.h"
#include "cuda/layer_norm.cuh"
#include "cuda/runtime.h"
#include "ops/layer_norm.h"

namespace tost::cuda {
namespace {

int Columns(const Tensor& x) {
  const int64_t columns = x.shape()[-1];
  TOST_CHECK(columns <= kNormMostColumns) << "LayerNorm on a CUDA device takes rows of at most "
                                          << kNormMostColumns << " columns, got " << columns;
  return static_cast<int>(columns);
}

void LayerNormOf(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon,
                 Tensor& y, Tensor& mean, Tensor& rstd) {
  VisitDeviceFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using S = Sum<T>;
    LayerNorm<T>(x.data<T>(), weight.data<S>(), bias.defined() ? bias.data<S>() : nullptr,
                 x.shape().Rows(), Columns(x), epsilon, y.mutable_data<T>(), mean.mutable_data<S>(),
                 rstd.mutable_data<S>(), ComputeStream());
  });
}

void LayerNormBackwardOf(const Tensor& x, const Tensor& weight, const Tensor& mean,
                         const Tensor& rstd, const Tensor& dy, ops::LayerNormGradients& out) {
  VisitDeviceFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using S = Sum<T>;
    const int64_t rows = x.shape().Rows();
    LayerNormOperands<T> in{.x = x.data<T>(),
                            .dy = dy.data<T>(),
                            .weight = weight.data<S>(),
                            .mean = mean.data<S>(),
                            .rstd = rstd.data<S>(),
                            .rows = rows,
                            .columns = Columns(x),
                            .dx = out.dx.defined() ? out.dx.mutable_data<T>() : nullptr,
                            .add = out.add,
                            .weight_sums = nullptr,
                            .bias_sums = nullptr};
    if (out.want_sums) {
      const Shape sums{NormRanges(rows), in.columns};
      out.weight_sums = Tensor::Empty(sums, kDTypeOf<S>, x.device());
      out.bias_sums = Tensor::Empty(sums, kDTypeOf<S>, x.device());
      in.weight_sums = out.weight_sums.mutable_data<S>();
      in.bias_sums = out.bias_sums.mutable_data<S>();
    }
    LayerNormBackward(in, ComputeStream());
  });
}

}  // namespace

void InstallLayerNormKernels() {
  ops::layer_norm_kernel.Install(DeviceType::kCuda, &LayerNormOf);
  ops::layer_norm_backward_kernel.Install(DeviceType::kCuda, &LayerNormBackwardOf);
}

}  // namespace tost::cuda
