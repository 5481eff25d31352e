// Two-dimensional convolution, channels last: the rows of the output are tokens, and the last
// convolution of a stem gives the token matrix as it is.
#ifndef TOST_OPS_CONV2D_H_
#define TOST_OPS_CONV2D_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "autograd/tensor.h"
#include "ops/kernel.h"

namespace tost::ops {

struct Conv2dOptions {
  int64_t stride = 1;
  int64_t padding = 0;  // zeros around the picture
};

// y[b, i, j, o] = Σ_{u,v,c} w[o, c, u, v] x[b, s i + u − p, s j + v − p, c]   (torch.nn.Conv2d
// without bias, stride s, padding p)
//   x [B, H, W, Cin]   w [Cout, Cin, K, K]   →   y [B, H', W', Cout],  H' = ⌊(H + 2p − K)/s⌋ + 1
// x and w have one floating dtype, which is y's. Saves x and w; the patches that the product reads
// are gathered again in backward. Every sum's order depends on the extents only.
Tensor Conv2d(const Tensor& x, const Tensor& w, const Conv2dOptions& options);

// The extents of a convolution.
struct Conv2dDims {
  int64_t batch = 0, height = 0, width = 0, channels = 0;  // of x
  int64_t out_height = 0, out_width = 0, out_channels = 0;
  int64_t kernel = 0, stride = 1, padding = 0;

  constexpr int64_t patches() const { return batch * out_height * out_width; }
  constexpr int64_t patch_size() const { return kernel * kernel * channels; }
};
absl::StatusOr<Conv2dDims> Conv2dShape(const Shape& x, const Shape& w,
                                       const Conv2dOptions& options);

// ---- Kernel slots ----

// patches[(b i j), (u v c)] = x[b, s i + u − p, s j + v − p, c], 0 outside.
using UnfoldFn = void(const Conv2dDims& dims, const Tensor& x, Tensor& patches);
extern Kernel<UnfoldFn> unfold_kernel;

// Its transpose: x[b, h, w, c] (+)= Σ patches that read it, in the order of (u, v).
using FoldFn = void(const Conv2dDims& dims, const Tensor& patches, bool add, Tensor& x);
extern Kernel<FoldFn> fold_kernel;

// to[o, u, v, c] = from[o, c, u, v], or the reverse when `back`; added to what is there when `add`.
// The two dtypes may differ.
struct ConvWeightLayout {
  bool back = false;
  bool add = false;
};
using RearrangeConvWeightFn = void(const Conv2dDims& dims, const ConvWeightLayout& layout,
                                   const Tensor& from, Tensor& to);
extern Kernel<RearrangeConvWeightFn> rearrange_conv_weight_kernel;

}  // namespace tost::ops

#endif  // TOST_OPS_CONV2D_H_
