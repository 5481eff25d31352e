// Softmax attention, tiled so that no [T, T] matrix ever exists (Dao et al., FlashAttention, 2022).
#ifndef TOST_OPS_ATTENTION_H_
#define TOST_OPS_ATTENTION_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "autograd/base/philox.h"
#include "autograd/tensor.h"
#include "ops/kernel.h"

namespace tost::ops {

struct AttentionOptions {
  int heads = 1;
  bool causal = false;  // token t sees tokens 0 … t only
  // Probability with which an attention weight is set to zero; the others grow by 1/(1 − dropout).
  float dropout = 0;
  // Weight (b, h, i, j) is dropped where Uniform(key, b, (h·T + i)·T + j) < dropout.
  RandomKey key{};
};

// y = softmax(q kᵀ / √d) v for every head.
//   qkv: [B, T, 3C], packed q | k | v, each head-major (channel h·d + c)   →   y: [B, T, C], d =
//   C/H
// Gradient, with P the softmax and D[i] = Σ_c dy[i, c] y[i, c]:
//   dv = Pᵀ dy    dS = P ⊙ (dy vᵀ − D)    dq = dS k / √d    dk = dSᵀ q / √d
// Saves qkv, y and the logarithm of the softmax's denominator, [B, H, T]; recomputes P tile by
// tile.
// float32, float64, bfloat16 (tiles and sums in float32). As F.scaled_dot_product_attention, and as
// CausalSelfAttention in nanoGPT's model.py.
Tensor Attention(const Tensor& qkv, const AttentionOptions& options);

// The shape of y. Errors: a rank other than 3, a width that is not 3 · heads · d.
absl::StatusOr<Shape> AttentionShape(const Shape& qkv, int heads);

// Keys and values of the tokens seen so far, for decoding token by token.
struct KeyValueCache {
  Tensor keys;    // B · H · capacity · d elements, in this order
  Tensor values;  // likewise
  int64_t batch = 0;
  int64_t capacity = 0;  // tokens
  int64_t width = 0;     // C

  static KeyValueCache Empty(int64_t batch, int64_t capacity, int64_t width, DType dtype,
                             Device device = Device::Cpu());
};

// Causal attention over a prompt qkv [B, T, 3C] whose keys and values fill positions 0 … T−1 of the
// cache. Records no gradient. CHECKs T ≤ capacity.
Tensor AttentionPrefill(const Tensor& qkv, int heads, KeyValueCache& cache);

// One token: writes the keys and values of qkv [B, 3C] at `position` and returns what its query
// sees of positions 0 … position, y [B, C]. Records no gradient. CHECKs position < capacity.
Tensor AttentionStep(KeyValueCache& cache, const Tensor& qkv, int heads, int64_t position);

// Kernels. `log_sum` is log2 of the softmax's denominators, [B, H, T] in AccumulateDType(qkv).
using AttentionFn = void(const AttentionOptions& options, const Tensor& qkv, Tensor& y,
                         Tensor& log_sum);
using AttentionBackwardFn = void(const AttentionOptions& options, const Tensor& qkv,
                                 const Tensor& y, const Tensor& log_sum, const Tensor& dy,
                                 Tensor& dqkv, bool add);
// Copies the keys and values of qkv [B, T, 3C] to positions `first` … of the cache.
using AttentionFillFn = void(int heads, const Tensor& qkv, int64_t first, KeyValueCache& cache);
// y [B, C] from the queries of qkv [B, 3C] and positions 0 … count−1 of the cache.
using AttentionStepFn = void(int heads, const Tensor& qkv, int64_t count,
                             const KeyValueCache& cache, Tensor& y);

extern Kernel<AttentionFn> attention_kernel;
extern Kernel<AttentionBackwardFn> attention_backward_kernel;
extern Kernel<AttentionFillFn> attention_fill_kernel;
extern Kernel<AttentionStepFn> attention_step_kernel;

}  // namespace tost::ops

#endif  // TOST_OPS_ATTENTION_H_
