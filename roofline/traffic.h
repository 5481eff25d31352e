// What the kernels whose traffic is not "each operand once" ask of the device, from the arguments
// of their slots: plain functions of extents and dtypes. They state what the CUDA kernels promise;
// kernels that a slot consists of are added up unless said otherwise. Bytes are those that a
// kernel's loads and stores ask for, whether or not a cache has them; the products of the GEMM
// library read each operand once.
#ifndef TOST_ROOFLINE_TRAFFIC_H_
#define TOST_ROOFLINE_TRAFFIC_H_

#include <cstdint>
#include <vector>

#include "autograd/tensor.h"
#include "ops/attention.h"
#include "ops/class_attention.h"
#include "ops/cross_covariance_attention.h"
#include "ops/layer_norm.h"
#include "ops/layout.h"
#include "ops/linear.h"
#include "ops/matmul.h"
#include "ops/optimizer_kernels.h"
#include "ops/residual.h"
#include "ops/tssa.h"
#include "roofline/counting_device.h"

namespace tost::roofline {

// ---- Products: 2 m n k FLOPs ----

Traffic GemmTraffic(const ops::GemmOptions& options, const Tensor& a, const Tensor& b,
                    const Tensor& c);
// A product; the bias joins it but for bfloat16 results, to which a pass of its own adds it.
std::vector<Launch> LinearLaunches(const Tensor& x, const Tensor& w, const Tensor& b,
                                   const Tensor& y);
// And a pass that reads u, adds a bias that is left, and makes y.
std::vector<Launch> LinearGeluLaunches(const Tensor& x, const Tensor& w, const Tensor& b,
                                       const Tensor& u, const Tensor& y);
Traffic MatmulTraffic(ops::MatmulForm form, const Tensor& a, const Tensor& b, const Tensor& c);

// ---- TSSA ----

// Tokens of a chunk, whose sums the kernels leave in memory.
inline constexpr int64_t kTssaChunkTokens = 32;

// How often an operator passes over the data of the size of w. The rest of its traffic, memberships
// and sums of O(C) per chunk, is counted besides.
struct TssaPasses {
  int w_reads = 0, dy_reads = 0;
  // Again by the block that has just read it, from cache: not counted as traffic.
  int w_again = 0;
};
// Energies, memberships with the sums they weight, and y each need a sum over all tokens (causal:
// all chunks before) of what came before. Without normalisation there are no energies.
inline constexpr TssaPasses kTssaPasses{.w_reads = 3, .w_again = 1};
inline constexpr TssaPasses kUnnormalizedTssaPasses{.w_reads = 2, .w_again = 1};
inline constexpr TssaPasses kTssaBackwardPasses{.w_reads = 3, .dy_reads = 2, .w_again = 1};
inline constexpr TssaPasses kCausalTssaPasses{.w_reads = 3, .w_again = 1};  // F1, F2, F3
inline constexpr TssaPasses kCausalTssaBackwardPasses{
    .w_reads = 3, .dy_reads = 2, .w_again = 1};  // R1, R2, R3

Traffic TssaTraffic(const ops::TssaInputs& in);
Traffic TssaBackwardTraffic(const ops::TssaInputs& in, const ops::TssaGradients& gradients);
Traffic CausalTssaTraffic(const ops::TssaInputs& in, const ops::CausalTssaState* state);
Traffic CausalTssaBackwardTraffic(const ops::TssaInputs& in, const ops::TssaGradients& gradients);
Traffic CausalTssaStepTraffic(const ops::TssaInputs& in, const ops::CausalTssaState& state,
                              const Tensor& y);

// ---- Attention: products of 64 x 64 tiles in float32, not on tensor cores ----

// Every tile of 64 queries reads the keys and values that it sees.
Traffic AttentionTraffic(const ops::AttentionOptions& options, const Tensor& qkv, const Tensor& y,
                         const Tensor& log_sum);
// One kernel owns keys and values, one queries: both read the other side tile by tile and form the
// weights again, 14 d FLOPs for a pair of tokens where forward has 4 d.
Traffic AttentionBackwardTraffic(const ops::AttentionOptions& options, const Tensor& qkv,
                                 const Tensor& y, const Tensor& log_sum, const Tensor& dy,
                                 const Tensor& dqkv, bool add);
Traffic AttentionFillTraffic(int heads, const Tensor& qkv, int64_t first,
                             const ops::KeyValueCache& cache);
Traffic AttentionStepTraffic(int heads, const Tensor& qkv, int64_t count,
                             const ops::KeyValueCache& cache, const Tensor& y);
Traffic ClassAttentionTraffic(const ops::ClassAttentionDims& dims, const Tensor& qkv,
                              const Tensor& y, const Tensor& p);
Traffic ClassAttentionBackwardTraffic(const ops::ClassAttentionDims& dims, const Tensor& qkv,
                                      const Tensor& p, const Tensor& dy, bool add,
                                      const Tensor& dqkv);

// The launches of cross-covariance attention, in order: norms of the channels, products through the
// GEMM library and small kernels on [d, d] between them.
std::vector<Launch> CrossCovarianceLaunches(const ops::CrossCovarianceDims& dims,
                                            const Tensor& qkv);
std::vector<Launch> CrossCovarianceBackwardLaunches(const ops::CrossCovarianceDims& dims,
                                                    const Tensor& qkv, bool add, bool wants_dqkv);

// ---- Loss ----

// The vocabulary projection with its loss. Each chunk of rows has its logits formed, read twice
// (their sum of exponentials; the gradient) and multiplied with w and x, whose own gradient is read
// and written once a chunk: chunks are large.
std::vector<Launch> ProjectedCrossEntropyLaunches(const Tensor& x, const Tensor& w,
                                                  const Tensor& targets, const Tensor& losses,
                                                  const Tensor& dx, const Tensor& dw);

// ---- The rest ----

Traffic LayerNormBackwardTraffic(const Tensor& x, const Tensor& weight, const Tensor& mean,
                                 const Tensor& rstd, const Tensor& dy,
                                 const ops::LayerNormGradients& out);
Traffic ScaledResidualBackwardTraffic(const Tensor& gamma, const Tensor& y, const Tensor& dz,
                                      const ops::ScaledResidualGradients& out);
Traffic EmbeddingTraffic(const Tensor& ids, const Tensor& table, const Tensor& positions,
                         int64_t first_position, const Tensor& y);
Traffic EmbeddingTableBackwardTraffic(const Tensor& ids, const Tensor& dy, bool add,
                                      const Tensor& dtable);
Traffic AdamWTraffic(const ops::AdamWStep& options, const Tensor& update, const Tensor& gradient,
                     const Tensor& value, const Tensor& first, const Tensor& second,
                     const Tensor& compute);
Traffic SgdTraffic(const ops::SgdStep& options, const Tensor& update, const Tensor& gradient,
                   const Tensor& value, const Tensor& momentum, const Tensor& compute);
Traffic CumsumTraffic(const Tensor& x, int axis, bool reverse, Tensor& y, bool add);
Traffic CopyRangeTraffic(const ops::AxisRange& range, const Tensor& x, const Tensor& y, bool add);
Traffic SelectTraffic(const Tensor& x, int axis, const Tensor& indices, const Tensor& y);
Traffic SelectBackwardTraffic(const Tensor& dy, int axis, const Tensor& indices, const Tensor& dx);

}  // namespace tost::roofline

#endif  // TOST_ROOFLINE_TRAFFIC_H_
