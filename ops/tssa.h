// Token statistics self-attention (TSSA), the operator of the Token Statistics Transformer
// (arXiv 2412.17810), from the projected tokens w to the output y. Both cost O(tokens · width).
//
// Channels are head-major: head h of H owns channels h·d … h·d + d − 1 of the width C = H·d. Below,
// n or t is a token, i a channel of a head, m the multipliers of `mask` (1 without).
//
//   Tssa: tokens see all tokens (vision; official AttentionTSSA)
//     D²[h,i] = max(Σ_n w², 1e-24)                    energy of a channel
//     q[n,h]  = Σ_i w² / D²                           share of the token in its channels' energy
//     Π[n,·]  = softmax over heads of temp_h · q      membership of the token in each head
//     s[h,i]  = Σ_n Π w² / (Σ_n Π + 1e-8)             second moment of the head's own tokens
//     y[n,h,i] = −w Π m / (1 + s)
//   Without normalisation (TssaOptions; the paper's ablation) the energies are left out:
//     q[n,h]  = Σ_i w²
//
//   CausalTssa: tokens see themselves and earlier tokens (language; CausalSelfAttention_TSSA)
//     as above with sums over r <= t in place of sums over n, and
//     D[t,h,i] = max(Σ_{r<=t} w², 1e-12)              the clamp is on the sum, not on its root
//     Π[t,·]   = softmax over heads of temp_h · (Σ_i w²/D + d · denom_bias[h,t])
//                                                     each of d channels adds the bias: factor d
//
// y = −∂G/∂w at fixed Π for the compression objective G = Σ_h ½ n_h Σ_i log(1 + s), n_h = Σ Π +
// 1e-8 (paper, section 3): the operator is a gradient step on it.
//
// w is float32, bfloat16 or float64; temp, denom_bias, mask and the gradients of the first two are
// float32, or float64 when w is. All statistics are formed in that type: only y and dw are rounded
// to bfloat16. Gradients flow to w, temp and denom_bias. Backward keeps w, Π and sums of O(C) per
// 32 tokens.
#ifndef TOST_OPS_TSSA_H_
#define TOST_OPS_TSSA_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "autograd/tensor.h"
#include "ops/kernel.h"

namespace tost::ops {

inline constexpr double kTssaMassEpsilon = 1e-8;       // added to Σ Π
inline constexpr double kTssaMinEnergy = 1e-24;        // lower bound of Σ w² in Tssa
inline constexpr double kCausalTssaMinEnergy = 1e-12;  // and in CausalTssa

struct TssaDims {
  int64_t batch = 0;
  int64_t tokens = 0;
  int64_t heads = 0;
  int64_t head_dim = 0;

  constexpr int64_t width() const { return heads * head_dim; }
  // Where a head's channels of a token begin in w [B, T, C], and its membership in Π [B, T, H].
  constexpr int64_t ChannelOffset(int64_t sequence, int64_t token, int64_t head = 0) const {
    return MembershipOffset(sequence, token, head) * head_dim;
  }
  constexpr int64_t MembershipOffset(int64_t sequence, int64_t token, int64_t head = 0) const {
    return (sequence * tokens + token) * heads + head;
  }
};

struct TssaOptions {
  bool normalized = true;  // memberships from shares of the channels' energies
};

// w [B, N, C], temp [H, 1], mask [B, 1, C] or absent: one multiplier of 1/(1 + s) per sample and
// channel, shared by the tokens (attention dropout: 0 or 1/keep). Returns y [B, N, C].
Tensor Tssa(const Tensor& w, const Tensor& temp, const Tensor& mask = {},
            const TssaOptions& options = {});
absl::StatusOr<TssaDims> TssaShape(const Shape& w, const Shape& temp, const Shape* mask = nullptr);

// w [B, T, C], temp [H, 1], denom_bias [H, block, 1] with block >= T (rows from T on take no part
// and get gradient 0), mask [B, T, C] or absent. Returns y [B, T, C].
Tensor CausalTssa(const Tensor& w, const Tensor& temp, const Tensor& denom_bias,
                  const Tensor& mask = {});
absl::StatusOr<TssaDims> CausalTssaShape(const Shape& w, const Shape& temp, const Shape& denom_bias,
                                         int64_t position = 0, const Shape* mask = nullptr);

// The memberships Π [B, T, H] that the two operators form, for study. No gradient flows.
Tensor TssaMemberships(const Tensor& w, const Tensor& temp, const TssaOptions& options = {});
Tensor CausalTssaMemberships(const Tensor& w, const Tensor& temp, const Tensor& denom_bias);

// All that CausalTssa needs to know of the tokens so far; its size does not grow with them.
struct CausalTssaState {
  Tensor energy;           // Σ w²    [B, C]
  Tensor weighted_energy;  // Σ Π w²  [B, C]
  Tensor membership;       // Σ Π     [B, H]

  // Before the first token. `dtype` is that of the sums: float32 or float64.
  static CausalTssaState Zeros(int64_t batch, int64_t heads, int64_t head_dim,
                               DType dtype = DType::kFloat32, Device device = Device::Cpu());
};

// The token at `position` (from 0): w [B, C] → y [B, C], equal to row `position` of CausalTssa over
// all tokens so far. Brings `state` up to date. No gradient flows.
Tensor CausalTssaStep(CausalTssaState& state, const Tensor& w, const Tensor& temp,
                      const Tensor& denom_bias, int64_t position);

// The tokens at `position` … position + T − 1 in one pass: w [B, T, C] → y [B, T, C]. `state` holds
// the tokens before them, and afterwards them too. No gradient flows.
Tensor CausalTssaPrefill(CausalTssaState& state, const Tensor& w, const Tensor& temp,
                         const Tensor& denom_bias, int64_t position = 0);

// ---- Kernel slots ----

// What a forward kernel leaves for its backward. The layout of all but `memberships` [B, T, H] is
// the kernel's own. Without normalisation there is no `energy`.
struct TssaSaved {
  Tensor memberships;
  Tensor energy;
  Tensor weighted_energy;
  Tensor mass;
};

// The operands of a kernel. `mask` may be undefined; `denom_bias` is so in Tssa.
struct TssaInputs {
  TssaDims dims;
  Tensor w;
  Tensor temp;
  Tensor denom_bias;
  Tensor mask;
  int64_t position = 0;    // of the first token, in denom_bias
  bool normalized = true;  // false in Tssa only
};

// Where a gradient goes; `out` is null when nobody wants it.
struct GradientOut {
  Tensor* out = nullptr;
  bool add = false;
};

struct TssaGradients {
  GradientOut w;
  GradientOut temp;
  GradientOut denom_bias;
};

using TssaFn = void(const TssaInputs& in, Tensor& y, TssaSaved& saved);
using TssaBackwardFn = void(const TssaInputs& in, const TssaSaved& saved, const Tensor& dy,
                            const TssaGradients& gradients);
// Starts from `state` and brings it up to date when it is not null.
using CausalTssaFn = void(const TssaInputs& in, CausalTssaState* state, Tensor& y,
                          TssaSaved& saved);
// in.dims.tokens is 1.
using CausalTssaStepFn = void(const TssaInputs& in, CausalTssaState& state, Tensor& y);

extern Kernel<TssaFn> tssa_kernel;
extern Kernel<TssaBackwardFn> tssa_backward_kernel;
extern Kernel<CausalTssaFn> causal_tssa_kernel;
extern Kernel<TssaBackwardFn> causal_tssa_backward_kernel;
extern Kernel<CausalTssaStepFn> causal_tssa_step_kernel;

}  // namespace tost::ops

#endif  // TOST_OPS_TSSA_H_
