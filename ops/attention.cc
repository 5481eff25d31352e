#include "ops/attention.h"

#include "absl/strings/str_cat.h"
#include "autograd/tape.h"
#include "ops/cpu/attention.h"

namespace tost::ops {

constinit Kernel<AttentionFn> attention_kernel{"attention", &cpu::Attention};
constinit Kernel<AttentionBackwardFn> attention_backward_kernel{"attention_backward",
                                                                &cpu::AttentionBackward};
constinit Kernel<AttentionFillFn> attention_fill_kernel{"attention_fill", &cpu::AttentionFill};
constinit Kernel<AttentionStepFn> attention_step_kernel{"attention_step", &cpu::AttentionStep};

absl::StatusOr<Shape> AttentionShape(const Shape& qkv, int heads) {
  if (qkv.rank() != 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("Attention: qkv must be [B, T, 3C], not ", qkv.ToString()));
  }
  if (heads < 1 || qkv[2] % (3 * heads) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("Attention: ", qkv[2],
                                                   " channels are not q, k and v of ", heads,
                                                   " heads (qkv ", qkv.ToString(), ")"));
  }
  return qkv.WithLast(qkv[2] / 3);
}

Tensor Attention(const Tensor& qkv, const AttentionOptions& options) {
  OpScope scope("attention");
  TOST_CHECK(options.dropout >= 0 && options.dropout < 1)
      << "Attention: dropout " << options.dropout << " is not in [0, 1)";
  const Shape shape = TOST_CHECK_VALUE(AttentionShape(qkv.shape(), options.heads));
  Tensor y = Tensor::Empty(shape, qkv.dtype(), qkv.device());
  Tensor log_sum = Tensor::Empty({shape[0], options.heads, shape[1]}, AccumulateDType(qkv.dtype()),
                                 qkv.device());
  attention_kernel.On(qkv.device().type)(options, qkv, y, log_sum);

  Tape* tape = Tape::Current();
  if (tape == nullptr) return y;
  return tape->Record("attention", {qkv.grad()}, y,
                      [options, qkv = Saved(qkv), y = Saved(y), log_sum](const Tensor& dy) {
                        qkv.Gradient([&](Tensor& dqkv, bool add) {
                          attention_backward_kernel.On(dy.device().type)(options, qkv, y, log_sum,
                                                                         dy, dqkv, add);
                        });
                      });
}

KeyValueCache KeyValueCache::Empty(int64_t batch, int64_t capacity, int64_t width, DType dtype,
                                   Device device) {
  const Shape shape{batch * capacity * width};
  return {.keys = Tensor::Empty(shape, dtype, device),
          .values = Tensor::Empty(shape, dtype, device),
          .batch = batch,
          .capacity = capacity,
          .width = width};
}

Tensor AttentionPrefill(const Tensor& qkv, int heads, KeyValueCache& cache) {
  OpScope scope("attention_prefill");
  const Shape shape = TOST_CHECK_VALUE(AttentionShape(qkv.shape(), heads));
  TOST_CHECK(shape[0] == cache.batch && shape[2] == cache.width && shape[1] <= cache.capacity)
      << "qkv " << qkv.shape() << " against a cache of " << cache.batch << " × " << cache.capacity
      << " tokens × " << cache.width << " channels";
  attention_fill_kernel.On(qkv.device().type)(heads, qkv, 0, cache);
  return Attention(qkv.Detached(), {.heads = heads, .causal = true});
}

Tensor AttentionStep(KeyValueCache& cache, const Tensor& qkv, int heads, int64_t position) {
  OpScope scope("attention_step");
  TOST_CHECK_EQ(qkv.shape().rank(), 2) << "qkv must be [B, 3C], not " << qkv.shape();
  const Tensor one = qkv.Detached().Reshaped({qkv.shape()[0], 1, qkv.shape()[1]});
  const Shape shape = TOST_CHECK_VALUE(AttentionShape(one.shape(), heads));
  TOST_CHECK(shape[0] == cache.batch && shape[2] == cache.width)
      << "qkv " << qkv.shape() << " against a cache of batch " << cache.batch << ", " << cache.width
      << " channels";
  TOST_CHECK(position >= 0 && position < cache.capacity)
      << "position " << position << " in a cache of " << cache.capacity << " tokens";
  attention_fill_kernel.On(qkv.device().type)(heads, one, position, cache);
  Tensor y = Tensor::Empty({shape[0], shape[2]}, qkv.dtype(), qkv.device());
  attention_step_kernel.On(qkv.device().type)(heads, qkv, position + 1, cache, y);
  return y;
}

}  // namespace tost::ops
