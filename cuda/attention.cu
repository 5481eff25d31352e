#include "cuda/attention.cuh"
#include "cuda/attention_backward.cuh"
#include "cuda/attention_step.cuh"
#include "cuda/dispatch.h"
#include "cuda/install.h"
#include "cuda/runtime.h"
#include "ops/attention.h"

namespace tost::cuda {
namespace {

AttentionProblem ProblemOf(const ops::AttentionOptions& options, const Shape& qkv) {
  const int64_t head_dim = qkv[2] / (3 * options.heads);
  TOST_CHECK(head_dim <= kMaxHeadDim) << "attention on CUDA holds heads of at most " << kMaxHeadDim
                                      << " channels, not " << head_dim << ": use more heads";
  return {.batch = static_cast<int>(qkv[0]),
          .heads = options.heads,
          .tokens = static_cast<int>(qkv[1]),
          .head_dim = static_cast<int>(head_dim),
          .causal = options.causal,
          .packs = false,
          .dropout = options.dropout,
          .key = options.key};
}

void Attention(const ops::AttentionOptions& options, const Tensor& qkv, Tensor& y,
               Tensor& log_sum) {
  if (y.numel() == 0) return;
  VisitDeviceFloat(qkv.dtype(), [&](auto zero) {
    using T = decltype(zero);
    AttentionProblem on = ProblemOf(options, qkv.shape());
    T* out = y.mutable_data<T>();
    on.packs = PacksFit<T>(on.head_dim, qkv.data<T>(), out);
    LaunchAttention(on, qkv.data<T>(), out, log_sum.mutable_data<Sum<T>>(), ComputeStream());
  });
}

void AttentionBackward(const ops::AttentionOptions& options, const Tensor& qkv, const Tensor& y,
                       const Tensor& log_sum, const Tensor& dy, Tensor& dqkv, bool add) {
  if (y.numel() == 0) return;
  Tensor dots = Tensor::Empty(log_sum.shape(), log_sum.dtype(), log_sum.device());
  VisitDeviceFloat(qkv.dtype(), [&](auto zero) {
    using T = decltype(zero);
    AttentionProblem on = ProblemOf(options, qkv.shape());
    T* out = dqkv.mutable_data<T>();
    on.packs = PacksFit<T>(on.head_dim, qkv.data<T>(), dy.data<T>(), out);
    Sum<T>* dot = dots.mutable_data<Sum<T>>();
    LaunchAttentionBackward<T>(on, y.data<T>(), dot,
                               {.qkv = qkv.data<T>(),
                                .log_sum = log_sum.data<Sum<T>>(),
                                .dots = dot,
                                .dy = dy.data<T>(),
                                .dqkv = out,
                                .add = add},
                               ComputeStream());
  });
}

StepProblem ProblemOf(int heads, int64_t count, const ops::KeyValueCache& cache) {
  return {.heads = heads,
          .capacity = cache.capacity,
          .count = count,
          .head_dim = static_cast<int>(cache.width / heads)};
}

void AttentionFill(int heads, const Tensor& qkv, int64_t first, ops::KeyValueCache& cache) {
  VisitDeviceFloat(qkv.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const StepProblem on = ProblemOf(heads, 0, cache);
    const T* from = qkv.data<T>();
    T *keys = cache.keys.mutable_data<T>(), *values = cache.values.mutable_data<T>();
    VisitPack<T>(PacksFit<T>(on.head_dim, from, keys, values), [&]<int kPack>() {
      LaunchAttentionFill<T, kPack>(on, from, qkv.shape()[0], qkv.shape()[1], first, keys, values,
                                    ComputeStream());
    });
  });
}

void AttentionStep(int heads, const Tensor& qkv, int64_t count, const ops::KeyValueCache& cache,
                   Tensor& y) {
  if (y.numel() == 0) return;
  const StepProblem on = ProblemOf(heads, count, cache);
  const int64_t batch = qkv.shape()[0];
  Tensor results = Tensor::Empty({batch * heads * on.parts(), on.part_size()},
                                 AccumulateDType(qkv.dtype()), qkv.device());
  VisitDeviceFloat(qkv.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T *from = qkv.data<T>(), *keys = cache.keys.data<T>(), *values = cache.values.data<T>();
    VisitPack<T>(PacksFit<T>(on.head_dim, from, keys, values), [&]<int kPack>() {
      LaunchAttentionStep<T, kPack>(on, batch, from, keys, values, results.mutable_data<Sum<T>>(),
                                    y.mutable_data<T>(), ComputeStream());
    });
  });
}

}  // namespace

void InstallAttentionKernels() {
  ops::attention_kernel.Install(DeviceType::kCuda, &Attention);
  ops::attention_backward_kernel.Install(DeviceType::kCuda, &AttentionBackward);
  ops::attention_fill_kernel.Install(DeviceType::kCuda, &AttentionFill);
  ops::attention_step_kernel.Install(DeviceType::kCuda, &AttentionStep);
}

}  // namespace tost::cuda
