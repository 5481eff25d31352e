// Attention between channels instead of tokens (XCiT, El-Nouby et al. 2021; XCA of the official
// vision code): linear in the tokens, quadratic in the width of a head.
#ifndef TOST_OPS_CROSS_COVARIANCE_ATTENTION_H_
#define TOST_OPS_CROSS_COVARIANCE_ATTENTION_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "autograd/tensor.h"
#include "ops/kernel.h"

namespace tost::ops {

inline constexpr double kCrossCovarianceMinNorm = 1e-12;  // lower bound of a channel's norm

// Per sample and head, with Q, K, V [N, d] and channels i, j of the head:
//   S[i, j] = Σ_n Q[n, i] K[n, j] / (|Q[·, i]| |K[·, j]|)      norms over the tokens, at least
//   1e-12 P[i, ·] = softmax over j of τ_h S[i, ·] y[n, i] = Σ_j P[i, j] V[n, j] qkv [B, N, 3C],
//   rows q|k|v, each head-major; τ [H, 1, 1]   →   y [B, N, C]
// τ is float64 for float64 qkv and float32 otherwise. Saves qkv, and S, P and the norms.
Tensor CrossCovarianceAttention(const Tensor& qkv, const Tensor& temperature);

struct CrossCovarianceDims {
  int64_t batch = 0, tokens = 0, heads = 0, head_dim = 0;

  constexpr int64_t width() const { return heads * head_dim; }
};
absl::StatusOr<CrossCovarianceDims> CrossCovarianceShape(const Shape& qkv,
                                                         const Shape& temperature);

// What forward leaves for backward, in AccumulateDType(qkv).
struct CrossCovarianceSaved {
  Tensor correlation;    // S [B, H, d, d]
  Tensor probabilities;  // P [B, H, d, d]
  Tensor norms;          // |Q[·, i]|, |K[·, j]|  [B, H, 2, d]
};
using CrossCovarianceFn = void(const CrossCovarianceDims& dims, const Tensor& qkv,
                               const Tensor& temperature, Tensor& y, CrossCovarianceSaved& saved);
extern Kernel<CrossCovarianceFn> cross_covariance_kernel;

// dqkv (+)= its gradient where it is not null; dtemperature [B, H] = each sample's part.
using CrossCovarianceBackwardFn = void(const CrossCovarianceDims& dims, const Tensor& qkv,
                                       const Tensor& temperature, const CrossCovarianceSaved& saved,
                                       const Tensor& dy, bool add, Tensor* dqkv,
                                       Tensor& dtemperature);
extern Kernel<CrossCovarianceBackwardFn> cross_covariance_backward_kernel;

}  // namespace tost::ops

#endif  // TOST_OPS_CROSS_COVARIANCE_ATTENTION_H_
