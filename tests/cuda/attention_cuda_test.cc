// The other mixers and the vision ops on the device: softmax, class and cross-covariance attention,
// ISTA, convolution, batch norm.
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "ops/attention.h"
#include "ops/batch_norm.h"
#include "ops/class_attention.h"
#include "ops/conv2d.h"
#include "ops/cross_covariance_attention.h"
#include "ops/ista.h"
#include "ops/layout.h"
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
// One of each; a token more than tiles of 32 and 64 have; odd widths; heads wider than 32 and 64.
const AttentionCase kAttentionCases[] = {{1, 1, 1, 1},   {2, 5, 3, 5},  {1, 33, 1, 8},
                                         {1, 65, 2, 20}, {1, 5, 1, 64}, {1, 5, 1, 101}};

TEST(Attention, EqualsTheCpu) {
  for (const AttentionCase& c : kAttentionCases) {
    if (SmallShapesOnly() && c.tokens > 40) continue;
    for (const bool causal : {true, false}) {
      for (const DType dtype : kDTypes) {
        // Tiles of wide heads do not fit into shared memory in float64.
        if (dtype == DType::kFloat64 && c.head_dim > 64) continue;
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

TEST(Attention, DropsWhatTheCpuDrops) {
  const RandomKey key{.seed = 5, .step = 3, .draw = 2, .first_row = 7};
  for (const DType dtype : kDTypes) {
    SCOPED_TRACE(Name(dtype));
    ExpectSameAsCpu(
        [&](const std::vector<Tensor>& in) {
          return ops::Attention(in[0], {.heads = 2, .causal = true, .dropout = 0.3f, .key = key});
        },
        {As(dtype, RandomTensor({2, 35, 3 * 2 * 8}, 1))}, Tolerance(dtype));
  }
}

// A prompt, then token by token: past the end of a part of the cache that a block reads.
std::vector<double> Decoded(const Tensor& qkv, int heads, int64_t prompt) {
  const int64_t batch = qkv.shape()[0], tokens = qkv.shape()[1], width = qkv.shape()[2] / 3;
  ops::KeyValueCache cache =
      ops::KeyValueCache::Empty(batch, tokens + 3, width, qkv.dtype(), qkv.device());
  const auto part = [&](int64_t first, int64_t count) {
    return ops::Slice(qkv, 1, first, first + count);
  };
  std::vector<double> results =
      ops::AttentionPrefill(part(0, prompt), heads, cache).ToHost<double>();
  for (int64_t t = prompt; t < tokens; ++t) {
    const Tensor token = ops::Reshape(part(t, 1), {batch, 3 * width});
    const std::vector<double> y = ops::AttentionStep(cache, token, heads, t).ToHost<double>();
    results.insert(results.end(), y.begin(), y.end());
  }
  return results;
}

TEST(Attention, DecodesAsTheCpuDoes) {
  for (const AttentionCase& c :
       {AttentionCase{2, 7, 3, 5}, AttentionCase{1, 6, 2, 8}, AttentionCase{1, 300, 1, 16}}) {
    if (SmallShapesOnly() && c.tokens > 40) continue;
    for (const DType dtype : DeviceDTypes()) {
      SCOPED_TRACE(testing::Message() << c.tokens << " tokens, " << c.heads << " x " << c.head_dim
                                      << " " << Name(dtype));
      const Tensor qkv = As(dtype, RandomTensor({c.batch, c.tokens, 3 * c.heads * c.head_dim}, 1));
      const std::vector<double> expected = Decoded(qkv, c.heads, c.tokens - 4);
      ForEachThreadOrder([&](const std::string& order) {
        SCOPED_TRACE(order);
        const std::vector<double> actual = Decoded(OnCuda(qkv), c.heads, c.tokens - 4);
        ASSERT_EQ(actual.size(), expected.size());
        for (size_t i = 0; i < actual.size(); ++i) {
          ASSERT_NEAR(actual[i], expected[i], Tolerance(dtype)) << i;
        }
      });
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
