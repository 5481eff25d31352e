// The slots of the fused ops, of the losses and of the optimizers. Kernels that allocate what they
// leave behind, or their scratch, do so here as the real ones do: it counts as memory.
#include <algorithm>
#include <string>

#include "ops/attention.h"
#include "ops/batch_norm.h"
#include "ops/class_attention.h"
#include "ops/conv2d.h"
#include "ops/cpu/column_sums.h"
#include "ops/cross_covariance_attention.h"
#include "ops/dropout.h"
#include "ops/embedding.h"
#include "ops/ista.h"
#include "ops/layer_norm.h"
#include "ops/linear.h"
#include "ops/loss.h"
#include "ops/optimizer_kernels.h"
#include "ops/residual.h"
#include "ops/tssa.h"
#include "roofline/counted.h"
#include "roofline/counting_kernels.h"
#include "roofline/traffic.h"

namespace tost::roofline {
namespace {

using ops::CausalTssaState;
using ops::TssaGradients;
using ops::TssaInputs;
using ops::TssaSaved;

void RecordAll(const char* slot, const std::vector<Launch>& launches) {
  for (const Launch& launch : launches) {
    Record(std::string(slot) + ": " + launch.kernel, launch.traffic);
  }
}

// ---- TSSA ----

int64_t Chunks(const TssaInputs& in) {
  return (in.dims.tokens + kTssaChunkTokens - 1) / kTssaChunkTokens;
}

// In the type of the sums.
Tensor Sums(const TssaInputs& in, Shape shape) {
  return Tensor::Empty(shape, AccumulateDType(in.w.dtype()), in.w.device());
}

void Tssa(const TssaInputs& in, Tensor& /*y*/, TssaSaved& saved) {
  const int64_t batch = in.dims.batch, width = in.dims.width(), heads = in.dims.heads;
  saved.memberships = Sums(in, {batch, in.dims.tokens, heads});
  if (in.normalized) saved.energy = Sums(in, {batch, width});
  saved.weighted_energy = Sums(in, {batch, width});
  saved.mass = Sums(in, {batch, heads});
  const Tensor of_chunks[] = {Sums(in, {batch, Chunks(in), width}),
                              Sums(in, {batch, Chunks(in), heads}), Sums(in, {batch, width})};
  Record(ops::tssa_kernel.name(), TssaTraffic(in));
}

// Sums of chunks over channels and heads, and the gradients of the logits.
struct BackwardScratch {
  explicit BackwardScratch(const TssaInputs& in)
      : channels(Sums(in, {in.dims.batch, Chunks(in), in.dims.width()})),
        heads(Sums(in, {in.dims.batch, Chunks(in), in.dims.heads})),
        logits(Sums(in, {in.dims.batch, in.dims.tokens, in.dims.heads})) {}
  Tensor channels, heads, logits;
};

void TssaBackward(const TssaInputs& in, const TssaSaved&, const Tensor& /*dy*/,
                  const TssaGradients& gradients) {
  const BackwardScratch scratch(in);
  Record(ops::tssa_backward_kernel.name(), TssaBackwardTraffic(in, gradients));
}

void CausalTssa(const TssaInputs& in, CausalTssaState* state, Tensor& /*y*/, TssaSaved& saved) {
  const int64_t batch = in.dims.batch, width = in.dims.width(), heads = in.dims.heads;
  saved.memberships = Sums(in, {batch, in.dims.tokens, heads});
  saved.energy = Sums(in, {batch, Chunks(in), width});
  saved.weighted_energy = Sums(in, {batch, Chunks(in), width});
  saved.mass = Sums(in, {batch, Chunks(in), heads});
  Record(ops::causal_tssa_kernel.name(), CausalTssaTraffic(in, state));
}

void CausalTssaBackward(const TssaInputs& in, const TssaSaved&, const Tensor& /*dy*/,
                        const TssaGradients& gradients) {
  const BackwardScratch scratch(in);
  Record(ops::causal_tssa_backward_kernel.name(), CausalTssaBackwardTraffic(in, gradients));
}

void CountTssa() {
  ops::tssa_kernel.Install(DeviceType::kCounting, &Tssa);
  ops::tssa_backward_kernel.Install(DeviceType::kCounting, &TssaBackward);
  ops::causal_tssa_kernel.Install(DeviceType::kCounting, &CausalTssa);
  ops::causal_tssa_backward_kernel.Install(DeviceType::kCounting, &CausalTssaBackward);
  Count<ops::causal_tssa_step_kernel, &CausalTssaStepTraffic>();
}

// ---- Attention ----

void AttentionBackward(const ops::AttentionOptions& options, const Tensor& qkv, const Tensor& y,
                       const Tensor& log_sum, const Tensor& dy, Tensor& dqkv, bool add) {
  const Tensor delta = Tensor::Empty(log_sum.shape(), log_sum.dtype(), log_sum.device());
  Record(ops::attention_backward_kernel.name(),
         AttentionBackwardTraffic(options, qkv, y, log_sum, dy, dqkv, add));
}

void CrossCovariance(const ops::CrossCovarianceDims& dims, const Tensor& qkv, const Tensor&,
                     Tensor&, ops::CrossCovarianceSaved&) {
  RecordAll(ops::cross_covariance_kernel.name(), CrossCovarianceLaunches(dims, qkv));
}

void CrossCovarianceBackward(const ops::CrossCovarianceDims& dims, const Tensor& qkv, const Tensor&,
                             const ops::CrossCovarianceSaved& saved, const Tensor&, bool add,
                             Tensor* dqkv, Tensor&) {
  const Tensor& like = saved.correlation;
  const Tensor scratch = Tensor::Empty(like.shape(), like.dtype(), like.device());
  RecordAll(ops::cross_covariance_backward_kernel.name(),
            CrossCovarianceBackwardLaunches(dims, qkv, add, dqkv != nullptr));
}

void CountAttention() {
  Count<ops::attention_kernel, &AttentionTraffic>();
  ops::attention_backward_kernel.Install(DeviceType::kCounting, &AttentionBackward);
  Count<ops::attention_fill_kernel, &AttentionFillTraffic>();
  Count<ops::attention_step_kernel, &AttentionStepTraffic>();
  Count<ops::class_attention_kernel, &ClassAttentionTraffic>();
  Count<ops::class_attention_backward_kernel, &ClassAttentionBackwardTraffic>();
  ops::cross_covariance_kernel.Install(DeviceType::kCounting, &CrossCovariance);
  ops::cross_covariance_backward_kernel.Install(DeviceType::kCounting, &CrossCovarianceBackward);
  Count<ops::ista_residual_kernel, EachOnce{.flops = 1, .results = Results::kUpdated}>();
  Count<ops::ista_threshold_kernel, EachOnce{.flops = 4, .results = Results::kUpdated}>();
  Count<ops::ista_gradient_kernel, EachOnce{.flops = 2}>();
  Count<ops::ista_combine_kernel, EachOnce{.flops = 4}>();
}

// ---- Layers ----

// Sums over ranges of rows that a second launch adds up.
Tensor RangeSums(const Tensor& x, DType dtype) {
  const int64_t rows = x.shape().Rows(), columns = x.shape()[-1];
  return Tensor::Empty({ops::cpu::RangeCount(rows, columns), columns}, dtype, x.device());
}

void LayerNormBackward(const Tensor& x, const Tensor& weight, const Tensor& mean,
                       const Tensor& rstd, const Tensor& dy, ops::LayerNormGradients& out) {
  if (out.want_sums) {
    out.weight_sums = RangeSums(x, weight.dtype());
    out.bias_sums = RangeSums(x, weight.dtype());
  }
  Record(ops::layer_norm_backward_kernel.name(),
         LayerNormBackwardTraffic(x, weight, mean, rstd, dy, out));
}

void ScaledResidualBackward(const Tensor& gamma, const Tensor& y, const Tensor& dz,
                            ops::ScaledResidualGradients& out) {
  if (out.want_sums) out.gamma_sums = RangeSums(dz, AccumulateDType(dz.dtype()));
  Record(ops::scaled_residual_backward_kernel.name(),
         ScaledResidualBackwardTraffic(gamma, y, dz, out));
}

void Linear(const Tensor& x, const Tensor& w, const Tensor& b, Tensor& y) {
  RecordAll(ops::linear_kernel.name(), LinearLaunches(x, w, b, y));
}

void LinearGelu(const Tensor& x, const Tensor& w, const Tensor& b, Tensor& u, Tensor& y) {
  RecordAll(ops::linear_gelu_kernel.name(), LinearGeluLaunches(x, w, b, u, y));
}

void CountLayers() {
  constexpr Results kUpdated = Results::kUpdated;
  Count<ops::layer_norm_kernel, EachOnce{.flops = 8}>();
  ops::layer_norm_backward_kernel.Install(DeviceType::kCounting, &LayerNormBackward);
  Count<ops::scaled_residual_kernel, EachOnce{.flops = 2}>();
  ops::scaled_residual_backward_kernel.Install(DeviceType::kCounting, &ScaledResidualBackward);
  Count<ops::accumulate_kernel, EachOnce{.flops = 1}>();
  Count<ops::gemm_kernel, &GemmTraffic>();
  ops::linear_kernel.Install(DeviceType::kCounting, &Linear);
  ops::linear_gelu_kernel.Install(DeviceType::kCounting, &LinearGelu);
  Count<ops::linear_gelu_backward_kernel, EachOnce{.flops = 10}>();
  Count<ops::sum_rows_kernel, EachOnce{.flops = 1}>();
  Count<ops::embedding_kernel, &EmbeddingTraffic>();
  Count<ops::embedding_table_backward_kernel, &EmbeddingTableBackwardTraffic>();
  Count<ops::embedding_positions_backward_kernel, EachOnce{.flops = 1}>();
  // Ten rounds of Philox, of eight integer operations each, give four draws.
  Count<ops::dropout_kernel, EachOnce{.flops = 22}>();

  Count<ops::unfold_kernel, EachOnce{}>();
  Count<ops::fold_kernel, EachOnce{.flops = 1}>();
  Count<ops::rearrange_conv_weight_kernel, EachOnce{}>();
  Count<ops::squared_deviations_kernel, EachOnce{.flops = 3}>();
  Count<ops::normalise_channels_kernel, EachOnce{.flops = 4}>();
  Count<ops::batch_norm_gradient_sums_kernel, EachOnce{.flops = 5}>();
  Count<ops::batch_norm_backward_kernel, EachOnce{.flops = 7}>();
  Count<ops::track_statistic_kernel, EachOnce{.flops = 3, .results = kUpdated}>();
  Count<ops::reciprocal_deviation_kernel, EachOnce{.flops = 3}>();
}

// ---- Losses and optimizers ----

void ProjectedCrossEntropy(const Tensor& x, const Tensor& w, const Tensor& targets, Tensor& losses,
                           Tensor& dx, Tensor& dw) {
  const int64_t vocabulary = w.shape()[0];
  const Shape chunk{ops::LossChunkRows(x.shape().Rows(), vocabulary, ops::kDeviceLossChunk),
                    vocabulary};
  const DType sums = AccumulateDType(x.dtype());
  const Tensor logits = Tensor::Empty(chunk, sums, x.device());
  // Where the types agree a row's gradient takes the place of its logits.
  Tensor gradient;
  if ((dx.defined() || dw.defined()) && sums != x.dtype()) {
    gradient = Tensor::Empty(chunk, x.dtype(), x.device());
  }
  RecordAll(ops::projected_cross_entropy_kernel.name(),
            ProjectedCrossEntropyLaunches(x, w, targets, losses, dx, dw));
}

void CountLossesAndOptimizers() {
  constexpr Results kUpdated = Results::kUpdated;
  Count<ops::cross_entropy_kernel, EachOnce{.flops = 4}>();
  Count<ops::cross_entropy_backward_kernel, EachOnce{.flops = 4}>();
  Count<ops::count_targets_kernel, EachOnce{.flops = 1}>();
  Count<ops::soft_cross_entropy_kernel, EachOnce{.flops = 7}>();
  Count<ops::soft_cross_entropy_backward_kernel, EachOnce{.flops = 6}>();
  ops::projected_cross_entropy_kernel.Install(DeviceType::kCounting, &ProjectedCrossEntropy);
  Count<ops::scale_gradient_kernel, EachOnce{.flops = 1}>();
  Count<ops::sum_losses_kernel, EachOnce{.flops = 1}>();

  Count<ops::squared_norm_kernel, EachOnce{.flops = 2}>();
  Count<ops::begin_update_kernel, EachOnce{.flops = 2, .results = kUpdated}>();
  Count<ops::adamw_kernel, &AdamWTraffic>();
  Count<ops::sgd_kernel, &SgdTraffic>();
  Count<ops::exponential_moving_average_kernel, EachOnce{.flops = 3, .results = kUpdated}>();
}

}  // namespace

void InstallFusedCounts() {
  CountTssa();
  CountAttention();
  CountLayers();
  CountLossesAndOptimizers();
}

void InstallCountingKernels() {
  InstallFusedCounts();
  InstallPrimitiveCounts();
}

}  // namespace tost::roofline
