// The sparse-coding step of CRATE (Yu et al. 2023, "White-box transformers via sparse rate
// reduction", section 2.4; model/crate.py of Ma-Lab-Berkeley/CRATE).
#ifndef TOST_OPS_ISTA_H_
#define TOST_OPS_ISTA_H_

#include "absl/status/status.h"
#include "autograd/tensor.h"
#include "ops/kernel.h"

namespace tost::ops {

struct IstaOptions {
  double step = 0.1;      // η
  double sparsity = 0.1;  // λ
};

// One proximal gradient step on ½|z − D x|² + λ|x|₁ over x ≥ 0 from x = z, with a dictionary D:
//   y = max(0, z + η Dᵀ(z − D z) − η λ)          per token, as column vectors
//     = max(0, z + η (z − z Dᵀ) D − η λ)         for the rows of z
//   z [..., C]   D [C, C]   →   y [..., C], all of one floating dtype
// With u the pre-activation, du = dy ⊙ [y > 0] and dr = η du Dᵀ:
//   dz = du + dr − dr D,   dD += η (z − z Dᵀ)ᵀ du − drᵀ z.
// Saves z, D, y and z Dᵀ − z.
Tensor Ista(const Tensor& z, const Tensor& dictionary, const IstaOptions& options = {});

absl::Status IstaShape(const Shape& z, const Shape& dictionary);

// ---- Kernel slots, element by element ----

// x −= z.
using SubtractInPlaceFn = void(const Tensor& z, Tensor& x);
extern Kernel<SubtractInPlaceFn> ista_residual_kernel;

// m ← max(0, z − η (m + λ)).
using IstaThresholdFn = void(const IstaOptions& options, const Tensor& z, Tensor& m);
extern Kernel<IstaThresholdFn> ista_threshold_kernel;

// g = −η dy ⊙ [y > 0].
using IstaGradientFn = void(const IstaOptions& options, const Tensor& y, const Tensor& dy,
                            Tensor& g);
extern Kernel<IstaGradientFn> ista_gradient_kernel;

// dz (+)= dy ⊙ [y > 0] − n + e.
using IstaCombineFn = void(const Tensor& y, const Tensor& dy, const Tensor& n, const Tensor& e,
                           bool add, Tensor& dz);
extern Kernel<IstaCombineFn> ista_combine_kernel;

}  // namespace tost::ops

#endif  // TOST_OPS_ISTA_H_
