#include "ops/conv2d.h"

#include "absl/strings/str_cat.h"
#include "autograd/tape.h"
#include "ops/cpu/conv2d.h"
#include "ops/linear.h"

namespace tost::ops {

constinit Kernel<UnfoldFn> unfold_kernel{"unfold", &cpu::Unfold};
constinit Kernel<FoldFn> fold_kernel{"fold", &cpu::Fold};
constinit Kernel<RearrangeConvWeightFn> rearrange_conv_weight_kernel{"rearrange conv weight",
                                                                     &cpu::RearrangeConvWeight};

absl::StatusOr<Conv2dDims> Conv2dShape(const Shape& x, const Shape& w,
                                       const Conv2dOptions& options) {
  auto error = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("Conv2d: ", what, " (x ", x.ToString(), ", w ",
                                                   w.ToString(), ", stride ", options.stride,
                                                   ", padding ", options.padding, ")"));
  };
  if (x.rank() != 4 || w.rank() != 4) return error("x and w need four axes each");
  if (x[3] != w[1]) return error(absl::StrCat("x has ", x[3], " channels but w reads ", w[1]));
  if (w[2] != w[3]) return error("w is not square");
  if (options.stride < 1 || options.padding < 0) return error("no such stride or padding");
  auto outputs = [&](int64_t extent) {
    const int64_t room = extent + 2 * options.padding - w[2];
    return room < 0 ? 0 : room / options.stride + 1;
  };
  const Conv2dDims dims{.batch = x[0],
                        .height = x[1],
                        .width = x[2],
                        .channels = x[3],
                        .out_height = outputs(x[1]),
                        .out_width = outputs(x[2]),
                        .out_channels = w[0],
                        .kernel = w[2],
                        .stride = options.stride,
                        .padding = options.padding};
  if (dims.out_height < 1 || dims.out_width < 1) return error("w is larger than the padded x");
  return dims;
}

namespace {

Tensor Patches(const Conv2dDims& dims, const Tensor& x) {
  Tensor patches = Tensor::Empty({dims.patches(), dims.patch_size()}, x.dtype(), x.device());
  unfold_kernel.On(x.device().type)(dims, x, patches);
  return patches;
}

// w as the matrix [Cout, K·K·Cin] whose columns are in the order of a patch.
Tensor WeightMatrix(const Conv2dDims& dims, const Tensor& w) {
  Tensor matrix = Tensor::Empty({dims.out_channels, dims.patch_size()}, w.dtype(), w.device());
  rearrange_conv_weight_kernel.On(w.device().type)(dims, {}, w, matrix);
  return matrix;
}

void Conv2dBackward(const Conv2dDims& dims, const Saved& x, const Saved& w, const Tensor& dy) {
  const DeviceType device = dy.device().type;
  const Tensor rows = dy.Reshaped({dims.patches(), dims.out_channels});
  w.Gradient([&](Tensor& dw, bool add) {
    // Sums of bfloat16 products stay float until they are in the master gradient.
    Tensor matrix = Tensor::Empty({dims.out_channels, dims.patch_size()},
                                  AccumulateDType(dy.dtype()), dy.device());
    gemm_kernel.On(device)({.transpose_a = true}, rows, Patches(dims, x), matrix);
    rearrange_conv_weight_kernel.On(device)(dims, {.back = true, .add = add}, matrix, dw);
  });
  x.Gradient([&](Tensor& dx, bool add) {
    Tensor patches = Tensor::Empty({dims.patches(), dims.patch_size()}, dy.dtype(), dy.device());
    gemm_kernel.On(device)({}, rows, WeightMatrix(dims, w), patches);
    fold_kernel.On(device)(dims, patches, add, dx);
  });
}

}  // namespace

Tensor Conv2d(const Tensor& x, const Tensor& w, const Conv2dOptions& options) {
  TOST_CHECK(x.dtype() == w.dtype()) << "Conv2d: x is " << x.dtype() << " but w is " << w.dtype();
  const Conv2dDims dims = TOST_CHECK_VALUE(Conv2dShape(x.shape(), w.shape(), options));
  Tensor y = Tensor::Empty({dims.batch, dims.out_height, dims.out_width, dims.out_channels},
                           x.dtype(), x.device());
  Tensor rows = y.Reshaped({dims.patches(), dims.out_channels});
  gemm_kernel.On(x.device().type)({.transpose_b = true}, Patches(dims, x), WeightMatrix(dims, w),
                                  rows);
  Tape* tape = Tape::Current();
  if (tape == nullptr) return y;
  return tape->Record(
      "conv2d", {x.grad(), w.grad()}, y,
      [dims, x = Saved(x), w = Saved(w)](const Tensor& dy) { Conv2dBackward(dims, x, w, dy); });
}

}  // namespace tost::ops
