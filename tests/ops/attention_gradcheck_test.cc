#include "autograd/gradcheck.h"
#include "gtest/gtest.h"
#include "ops/attention.h"

namespace tost::ops {
namespace {

struct Case {
  int64_t batch, tokens;
  int heads;
  int64_t head_dim;
  bool causal;
  float dropout;
};

// One token, one head, a tile border at 64 tokens.
const Case kCases[] = {
    {1, 1, 1, 2, true, 0},    {2, 1, 2, 3, false, 0},     {2, 5, 2, 3, true, 0},
    {1, 9, 1, 4, false, 0},   {1, 67, 1, 2, true, 0},     {1, 67, 1, 1, false, 0},
    {2, 6, 2, 2, true, 0.3f}, {1, 66, 1, 1, false, 0.5f},
};

TEST(AttentionGradcheck, CausalAndFullWithAndWithoutDropout) {
  for (const Case& c : kCases) {
    const AttentionOptions options{
        .heads = c.heads, .causal = c.causal, .dropout = c.dropout, .key = {.seed = 7, .step = 3}};
    const GradcheckReport report =
        Gradcheck([&](const std::vector<Tensor>& x) { return Attention(x[0], options); },
                  {RandomTensor({c.batch, c.tokens, 3 * c.heads * c.head_dim}, 11)});
    EXPECT_TRUE(report.passed()) << "T " << c.tokens << " H " << c.heads << " d " << c.head_dim
                                 << (c.causal ? " causal" : "") << " dropout " << c.dropout << ": "
                                 << report.worst << report.failure;
  }
}

}  // namespace
}  // namespace tost::ops
