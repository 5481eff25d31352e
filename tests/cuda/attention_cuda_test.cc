// The other mixers and the vision ops on the device: softmax, class and cross-covariance attention,
// ISTA, convolution, batch norm.
#include <vector>

#include "gtest/gtest.h"
#include "ops/attention.h"
#include "ops/batch_norm.h"
#include "ops/class_attention.h"
#include "ops/conv2d.h"
#include "ops/cross_covariance_attention.h"
#include "ops/ista.h"
#include "tests/cuda/device_test.h"

namespace tost {
namespace {

constexpr DType kDTypes[] = {DType::kFloat64, DType::kFloat32, DType::kBFloat16};

// As in layers_cuda_test.cc; attention rounds its bfloat16 results after two products.
double Tolerance(DType dtype) {
  if (dtype == DType::kFloat64) return 1e-12;
  return dtype == DType::kFloat32 ? 1e-5 : 4 * kBFloat16Epsilon;
}

struct AttentionCase {
  int64_t batch, tokens;
  int heads;
  int64_t head_dim;
};
// One of each; a token more than tiles of 32 and 64 have; odd widths.
const AttentionCase kAttentionCases[] = {{1, 1, 1, 1}, {2, 5, 3, 5}, {1, 33, 1, 8}, {1, 65, 2, 20}};

TEST(Attention, EqualsTheCpu) {
  for (const AttentionCase& c : kAttentionCases) {
    if (SmallShapesOnly() && c.tokens > 40) continue;
    for (const bool causal : {true, false}) {
      for (const DType dtype : kDTypes) {
        SCOPED_TRACE(testing::Message() << c.tokens << " tokens, " << c.heads << " x " << c.head_dim
                                        << (causal ? " causal " : " ") << Name(dtype));
        const Tensor qkv =
            As(dtype, RandomTensor({c.batch, c.tokens, 3 * c.heads * c.head_dim}, 1));
        const auto attend = [&](const std::vector<Tensor>& in) {
          return ops::Attention(in[0], {.heads = c.heads, .causal = causal});
        };
        ExpectSameAsCpu(attend, {qkv}, Tolerance(dtype));
      }
    }
  }
}

TEST(Attention, Gradients) {
  ExpectGradcheck(
      [](const std::vector<Tensor>& in) {
        return ops::Attention(in[0], {.heads = 2, .causal = true});
      },
      {RandomTensor({1, 5, 3 * 2 * 3}, 1)});
}

TEST(ClassAttention, EqualsTheCpu) {
  for (const AttentionCase& c : kAttentionCases) {
    for (const DType dtype : kDTypes) {
      SCOPED_TRACE(testing::Message() << c.tokens << " " << Name(dtype));
      const Tensor qkv = As(dtype, RandomTensor({c.batch, c.tokens, 3 * c.heads * c.head_dim}, 1));
      ExpectSameAsCpu(
          [&](const std::vector<Tensor>& in) { return ops::ClassAttention(in[0], c.heads); }, {qkv},
          Tolerance(dtype));
    }
  }
}

TEST(CrossCovarianceAttention, EqualsTheCpu) {
  for (const AttentionCase& c : kAttentionCases) {
    if (SmallShapesOnly() && c.tokens > 40) continue;
    for (const DType dtype : kDTypes) {
      SCOPED_TRACE(testing::Message() << c.tokens << " " << Name(dtype));
      const Tensor qkv = As(dtype, RandomTensor({c.batch, c.tokens, 3 * c.heads * c.head_dim}, 1));
      const Tensor temperature =
          As(AccumulateDType(dtype), RandomTensor({c.heads, 1, 1}, 2, 0.5, 1.5));
      ExpectSameAsCpu(
          [](const std::vector<Tensor>& in) { return ops::CrossCovarianceAttention(in[0], in[1]); },
          {qkv, temperature}, Tolerance(dtype));
    }
  }
}

TEST(Ista, EqualsTheCpu) {
  for (const DType dtype : kDTypes) {
    SCOPED_TRACE(Name(dtype));
    ExpectSameAsCpu([](const std::vector<Tensor>& in) { return ops::Ista(in[0], in[1]); },
                    {As(dtype, RandomTensor({2, 7, 10}, 1)), As(dtype, RandomTensor({10, 10}, 2))},
                    Tolerance(dtype));
  }
}

TEST(Conv2d, EqualsTheCpu) {
  for (const DType dtype : kDTypes) {
    for (const int64_t size : {1, 6, 9}) {
      SCOPED_TRACE(testing::Message() << size << " " << Name(dtype));
      ExpectSameAsCpu(
          [](const std::vector<Tensor>& in) {
            return ops::Conv2d(in[0], in[1], {.stride = 2, .padding = 1});
          },
          {As(dtype, RandomTensor({2, size, size, 3}, 1)),
           As(dtype, RandomTensor({5, 3, 3, 3}, 2))},
          Tolerance(dtype));
    }
  }
}

}  // namespace
}  // namespace tost
