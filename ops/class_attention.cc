#include "ops/class_attention.h"

#include "absl/strings/str_cat.h"
#include "autograd/tape.h"
#include "ops/cpu/class_attention.h"

namespace tost::ops {

constinit Kernel<ClassAttentionFn> class_attention_kernel{"class attention", &cpu::ClassAttention};
constinit Kernel<ClassAttentionBackwardFn> class_attention_backward_kernel{
    "class attention backward", &cpu::ClassAttentionBackward};

absl::StatusOr<ClassAttentionDims> ClassAttentionShape(const Shape& qkv, int64_t heads) {
  if (qkv.rank() != 3 || heads < 1 || qkv[1] < 1 || qkv[2] % (3 * heads) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("ClassAttention: qkv ", qkv.ToString(),
                     " is not [batch, tokens, 3 * width] with a width of ", heads, " heads"));
  }
  return ClassAttentionDims{
      .batch = qkv[0], .tokens = qkv[1], .heads = heads, .head_dim = qkv[2] / (3 * heads)};
}

Tensor ClassAttention(const Tensor& qkv, int64_t heads) {
  const ClassAttentionDims dims = TOST_CHECK_VALUE(ClassAttentionShape(qkv.shape(), heads));
  Tensor y = Tensor::Empty({dims.batch, dims.width()}, qkv.dtype(), qkv.device());
  Tensor p = Tensor::Empty({dims.batch, dims.heads, dims.tokens}, AccumulateDType(qkv.dtype()),
                           qkv.device());
  class_attention_kernel.On(qkv.device().type)(dims, qkv, y, p);
  Tape* tape = Tape::Current();
  if (tape == nullptr) return y;
  return tape->Record(
      "class_attention", {qkv.grad()}, y, [dims, qkv = Saved(qkv), p](const Tensor& dy) {
        qkv.Gradient([&](Tensor& dqkv, bool add) {
          class_attention_backward_kernel.On(dy.device().type)(dims, qkv, p, dy, add, dqkv);
        });
      });
}

}  // namespace tost::ops
