#include "ops/layer_norm.h"

#include "absl/strings/str_cat.h"
#include "autograd/tape.h"
#include "ops/cpu/layer_norm.h"
#include "ops/linear.h"

namespace tost::ops {

constinit Kernel<LayerNormFn> layer_norm_kernel{"layer_norm", &cpu::LayerNorm};
constinit Kernel<LayerNormBackwardFn> layer_norm_backward_kernel{"layer_norm_backward",
                                                                 &cpu::LayerNormBackward};

absl::StatusOr<Shape> LayerNormShape(const Shape& x, const Shape& weight,
                                     const std::optional<Shape>& bias) {
  if (x.rank() < 1 || x[-1] < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("LayerNorm: x ", x.ToString(), " has no columns to normalise over"));
  }
  if (weight != Shape{x[-1]}) {
    return absl::InvalidArgumentError(absl::StrCat("LayerNorm: x has ", x[-1],
                                                   " columns but weight is ", weight.ToString(),
                                                   " (x ", x.ToString(), ")"));
  }
  if (bias.has_value() && *bias != weight) {
    return absl::InvalidArgumentError(absl::StrCat("LayerNorm: x has ", x[-1],
                                                   " columns but bias is ", bias->ToString(),
                                                   " (x ", x.ToString(), ")"));
  }
  return x;
}

Tensor LayerNorm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
  const DType vector_dtype = AccumulateDType(x.dtype());
  TOST_CHECK(weight.dtype() == vector_dtype)
      << "LayerNorm: weight is " << weight.dtype() << ", expected " << vector_dtype;
  const auto bias_shape = bias.defined() ? std::optional<Shape>(bias.shape()) : std::nullopt;
  Tensor y = Tensor::Empty(TOST_CHECK_VALUE(LayerNormShape(x.shape(), weight.shape(), bias_shape)),
                           x.dtype(), x.device());
  Tensor mean = Tensor::Empty({x.shape().Rows()}, vector_dtype, x.device());
  Tensor rstd = Tensor::Empty({x.shape().Rows()}, vector_dtype, x.device());
  layer_norm_kernel.On(x.device().type)(x, weight, bias, epsilon, y, mean, rstd);

  Tape* tape = Tape::Current();
  if (tape == nullptr) return y;
  return tape->Record(
      "layer_norm", {x.grad(), weight.grad(), bias.grad()}, y,
      [x = Saved(x), weight = Saved(weight), bias = SavedShape(bias), mean,
       rstd](const Tensor& dy) {
        const DeviceType device = dy.device().type;
        LayerNormGradients out{.want_sums = weight.wants_gradient() || bias.wants_gradient()};
        auto run = [&] { layer_norm_backward_kernel.On(device)(x, weight, mean, rstd, dy, out); };
        x.Gradient([&](Tensor& dx, bool add) {
          out.dx = dx;
          out.add = add;
          run();
        });
        if (!x.wants_gradient()) run();
        const auto sum_rows = sum_rows_kernel.On(device);
        weight.Gradient([&](Tensor& dw, bool add) { sum_rows(out.weight_sums, add, dw); });
        bias.Gradient([&](Tensor& db, bool add) { sum_rows(out.bias_sums, add, db); });
      });
}

}  // namespace tost::ops
