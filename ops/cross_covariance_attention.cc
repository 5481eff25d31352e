#include "ops/cross_covariance_attention.h"

#include "absl/strings/str_cat.h"
#include "autograd/tape.h"
#include "ops/cpu/cross_covariance_attention.h"
#include "ops/linear.h"

namespace tost::ops {

constinit Kernel<CrossCovarianceFn> cross_covariance_kernel{"cross covariance",
                                                            &cpu::CrossCovariance};
constinit Kernel<CrossCovarianceBackwardFn> cross_covariance_backward_kernel{
    "cross covariance backward", &cpu::CrossCovarianceBackward};

absl::StatusOr<CrossCovarianceDims> CrossCovarianceShape(const Shape& qkv,
                                                         const Shape& temperature) {
  const int64_t heads = temperature.rank() > 0 ? temperature[0] : 0;
  if (heads < 1 || temperature.numel() != heads) {
    return absl::InvalidArgumentError(absl::StrCat(
        "CrossCovarianceAttention: temperature ", temperature.ToString(), " is not [heads, 1, 1]"));
  }
  if (qkv.rank() != 3 || qkv[2] % (3 * heads) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("CrossCovarianceAttention: qkv ", qkv.ToString(),
                     " is not [batch, tokens, 3 * width] with a width of ", heads, " heads"));
  }
  return CrossCovarianceDims{
      .batch = qkv[0], .tokens = qkv[1], .heads = heads, .head_dim = qkv[2] / (3 * heads)};
}

Tensor CrossCovarianceAttention(const Tensor& qkv, const Tensor& temperature) {
  const CrossCovarianceDims dims =
      TOST_CHECK_VALUE(CrossCovarianceShape(qkv.shape(), temperature.shape()));
  const DType dtype = AccumulateDType(qkv.dtype());
  TOST_CHECK(temperature.dtype() == dtype) << "CrossCovarianceAttention: temperature is "
                                           << temperature.dtype() << ", expected " << dtype;
  const Device device = qkv.device();
  const int64_t pairs = dims.batch * dims.heads, d = dims.head_dim;
  Tensor y = Tensor::Empty({dims.batch, dims.tokens, dims.width()}, qkv.dtype(), device);
  CrossCovarianceSaved saved{.correlation = Tensor::Empty({pairs, d, d}, dtype, device),
                             .probabilities = Tensor::Empty({pairs, d, d}, dtype, device),
                             .norms = Tensor::Empty({pairs, 2, d}, dtype, device)};
  cross_covariance_kernel.On(device.type)(dims, qkv, temperature, y, saved);
  Tape* tape = Tape::Current();
  if (tape == nullptr) return y;
  return tape->Record(
      "cross_covariance_attention", {qkv.grad(), temperature.grad()}, y,
      [dims, qkv = Saved(qkv), temperature = Saved(temperature), saved](const Tensor& dy) {
        Tensor parts =
            Tensor::Empty({dims.batch, dims.heads}, temperature.value().dtype(), dy.device());
        auto run = [&](Tensor* dqkv, bool add) {
          cross_covariance_backward_kernel.On(dy.device().type)(dims, qkv, temperature, saved, dy,
                                                                add, dqkv, parts);
        };
        qkv.Gradient([&](Tensor& dqkv, bool add) { run(&dqkv, add); });
        if (!qkv.wants_gradient()) run(nullptr, false);
        temperature.Gradient([&](Tensor& dt, bool add) {
          Tensor row = dt.Reshaped({dims.heads});
          sum_rows_kernel.On(dy.device().type)(parts, add, row);
        });
      });
}

}  // namespace tost::ops
