// Attention of one query: the class token reads all tokens (Touvron et al. 2021, "Going deeper with
// image transformers"; ClassAttention of the official vision code).
#ifndef TOST_OPS_CLASS_ATTENTION_H_
#define TOST_OPS_CLASS_ATTENTION_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "autograd/tensor.h"
#include "ops/kernel.h"

namespace tost::ops {

// With d = C / heads, per sample and head:
//   p[n] = softmax over n of (q[0] · k[n]) / √d,   y = Σ_n p[n] v[n]
//   qkv [B, N, 3C], rows q|k|v, each head-major   →   y [B, C]
// Only token 0's query takes part, so the gradient of the others' is 0. Saves qkv and p.
Tensor ClassAttention(const Tensor& qkv, int64_t heads);

struct ClassAttentionDims {
  int64_t batch = 0, tokens = 0, heads = 0, head_dim = 0;

  constexpr int64_t width() const { return heads * head_dim; }
};
absl::StatusOr<ClassAttentionDims> ClassAttentionShape(const Shape& qkv, int64_t heads);

// Writes y, and p [B, heads, N] in AccumulateDType(qkv).
using ClassAttentionFn = void(const ClassAttentionDims& dims, const Tensor& qkv, Tensor& y,
                              Tensor& p);
extern Kernel<ClassAttentionFn> class_attention_kernel;

// dqkv (+)= the gradient, all of it.
using ClassAttentionBackwardFn = void(const ClassAttentionDims& dims, const Tensor& qkv,
                                      const Tensor& p, const Tensor& dy, bool add, Tensor& dqkv);
extern Kernel<ClassAttentionBackwardFn> class_attention_backward_kernel;

}  // namespace tost::ops

#endif  // TOST_OPS_CLASS_ATTENTION_H_
