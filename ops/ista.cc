#include "ops/ista.h"

#include "absl/strings/str_cat.h"
#include "autograd/tape.h"
#include "ops/cpu/ista.h"
#include "ops/linear.h"

namespace tost::ops {

constinit Kernel<SubtractInPlaceFn> ista_residual_kernel{"ista residual", &cpu::IstaResidual};
constinit Kernel<IstaThresholdFn> ista_threshold_kernel{"ista threshold", &cpu::IstaThreshold};
constinit Kernel<IstaGradientFn> ista_gradient_kernel{"ista gradient", &cpu::IstaGradient};
constinit Kernel<IstaCombineFn> ista_combine_kernel{"ista combine", &cpu::IstaCombine};

absl::Status IstaShape(const Shape& z, const Shape& dictionary) {
  if (z.rank() >= 1 && dictionary == Shape{z[-1], z[-1]}) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("Ista: the dictionary ", dictionary.ToString(),
                                                 " is not a square of z's width (z ", z.ToString(),
                                                 ")"));
}

namespace {

Tensor EmptyLike(const Tensor& x) { return Tensor::Empty(x.shape(), x.dtype(), x.device()); }

}  // namespace

Tensor Ista(const Tensor& z, const Tensor& dictionary, const IstaOptions& options) {
  TOST_CHECK_OK(IstaShape(z.shape(), dictionary.shape()));
  TOST_CHECK(z.dtype() == dictionary.dtype())
      << "Ista: z is " << z.dtype() << " but the dictionary is " << dictionary.dtype();
  const DeviceType device = z.device().type;
  // The products come without a sign of their own, so the residual is kept as z Dᵀ − z.
  Tensor residual = EmptyLike(z);
  gemm_kernel.On(device)({.transpose_b = true}, z, dictionary, residual);
  ista_residual_kernel.On(device)(z, residual);
  Tensor y = EmptyLike(z);
  gemm_kernel.On(device)({}, residual, dictionary, y);
  ista_threshold_kernel.On(device)(options, z, y);

  Tape* tape = Tape::Current();
  if (tape == nullptr) return y;
  return tape->Record("ista", {z.grad(), dictionary.grad()}, y,
                      [options, z = Saved(z), dictionary = Saved(dictionary), y = y.Detached(),
                       residual](const Tensor& dy) {
                        const DeviceType on = dy.device().type;
                        const auto gemm = gemm_kernel.On(on);
                        Tensor g = EmptyLike(dy), n = EmptyLike(dy);
                        ista_gradient_kernel.On(on)(options, y, dy, g);
                        gemm({.transpose_b = true}, g, dictionary, n);  // −dr
                        dictionary.Gradient([&](Tensor& dd, bool add) {
                          gemm({.transpose_a = true, .add = add}, residual, g, dd);
                          gemm({.transpose_a = true, .add = true}, n, z, dd);
                        });
                        z.Gradient([&](Tensor& dz, bool add) {
                          gemm({}, n, dictionary, g);
                          ista_combine_kernel.On(on)(y, dy, n, g, add, dz);
                        });
                      });
}

}  // namespace tost::ops
