#include "ops/attention.h"

#include <cmath>

#include "autograd/base/parallel.h"
#include "autograd/gradcheck.h"
#include "autograd/tape.h"
#include "gtest/gtest.h"

namespace tost::ops {
namespace {

struct Case {
  int64_t batch, tokens;
  int heads;
  int64_t head_dim;
  bool causal;
  float dropout;

  Shape shape() const { return {batch, tokens, 3 * heads * head_dim}; }
  AttentionOptions options() const {
    return {.heads = heads, .causal = causal, .dropout = dropout, .key = {.seed = 7, .step = 3}};
  }
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << "B" << c.batch << " T" << c.tokens << " H" << c.heads << " d" << c.head_dim
             << (c.causal ? " causal" : "") << " dropout " << c.dropout;
}

// The formula as plain loops, with the weight matrix.
std::vector<double> Formula(const Case& c, const std::vector<double>& qkv) {
  const int64_t width = c.heads * c.head_dim;
  std::vector<double> y(static_cast<size_t>(c.batch * c.tokens * width), 0.0);
  auto at = [&](int64_t b, int64_t t, int64_t part, int64_t h, int64_t e) {
    return qkv[static_cast<size_t>((b * c.tokens + t) * 3 * width + part * width + h * c.head_dim +
                                   e)];
  };
  const RandomKey key = c.options().key;
  for (int64_t b = 0; b < c.batch; ++b) {
    for (int64_t h = 0; h < c.heads; ++h) {
      for (int64_t i = 0; i < c.tokens; ++i) {
        const int64_t seen = c.causal ? i + 1 : c.tokens;
        std::vector<double> weight(static_cast<size_t>(seen));
        double sum = 0;
        for (int64_t j = 0; j < seen; ++j) {
          double score = 0;
          for (int64_t e = 0; e < c.head_dim; ++e) score += at(b, i, 0, h, e) * at(b, j, 1, h, e);
          weight[static_cast<size_t>(j)] =
              std::exp(score / std::sqrt(static_cast<double>(c.head_dim)));
          sum += weight[static_cast<size_t>(j)];
        }
        for (int64_t j = 0; j < seen; ++j) {
          const bool dropped =
              c.dropout > 0 && Uniform(key, b, (h * c.tokens + i) * c.tokens + j) < c.dropout;
          const double share =
              dropped ? 0 : weight[static_cast<size_t>(j)] / sum / (1 - double{c.dropout});
          for (int64_t e = 0; e < c.head_dim; ++e) {
            y[static_cast<size_t>((b * c.tokens + i) * width + h * c.head_dim + e)] +=
                share * at(b, j, 2, h, e);
          }
        }
      }
    }
  }
  return y;
}

double Largest(const std::vector<double>& values) {
  double largest = 0;
  for (double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

double Difference(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

// Tile borders at 64 queries and keys, the border of a task at 256 queries, keys in one and several
// segments (fewer than 16 heads in all), one token, one head, head sizes that are no multiple of a
// vector.
const Case kCases[] = {
    {1, 1, 1, 4, true, 0},        {2, 1, 3, 5, false, 0},      {2, 7, 1, 3, true, 0},
    {1, 64, 2, 8, true, 0},       {1, 65, 2, 8, false, 0},     {2, 130, 3, 20, true, 0},
    {1, 300, 2, 48, true, 0},     {1, 300, 1, 33, false, 0},   {1, 257, 2, 64, true, 0},
    {4, 150, 4, 8, true, 0},      {4, 150, 4, 8, false, 0},    {2, 37, 2, 6, true, 0.25f},
    {1, 150, 2, 16, false, 0.5f}, {1, 261, 1, 80, true, 0.1f},
};

// Sums of at most 300 terms in another order than the formula's.
constexpr double kDoubleRounding = 1e-13;
constexpr double kFloatRounding = 3e-6;

TEST(Attention, EqualsTheFormula) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(testing::PrintToString(c));
    const Tensor qkv = RandomTensor(c.shape(), 5, -2, 2);
    const std::vector<double> expected = Formula(c, qkv.ToHost<double>());
    const double scale = std::max(1.0, Largest(expected));
    EXPECT_LT(Difference(Attention(qkv, c.options()).ToHost<double>(), expected),
              kDoubleRounding * scale);
    const Tensor single = Converted(qkv, DType::kFloat32);
    EXPECT_LT(Difference(Attention(single, c.options()).ToHost<double>(), expected),
              kFloatRounding * scale);
  }
}

// y and dqkv of the same tape in any dtype, as float64.
std::pair<std::vector<double>, std::vector<double>> ValueAndGradient(const Case& c, DType dtype) {
  const Tensor qkv = Leaf(Converted(RandomTensor(c.shape(), 5, -2, 2), dtype));
  const Tensor dy = Converted(RandomTensor({c.batch, c.tokens, c.heads * c.head_dim}, 6), dtype);
  Tape tape;
  const Tensor y = Attention(qkv, c.options());
  tape.BackwardFrom(y, dy);
  return {y.ToHost<double>(), qkv.grad()->value().ToHost<double>()};
}

TEST(Attention, GradientsAgreeInAllPrecisions) {
  // bfloat16 rounds the inputs (values up to 2, products up to 4) and the outputs once.
  constexpr double kBFloat16Rounding = 4.0 * kBFloat16Epsilon;
  for (const Case& c : kCases) {
    SCOPED_TRACE(testing::PrintToString(c));
    const auto [y, dqkv] = ValueAndGradient(c, DType::kFloat64);
    const auto [y32, dqkv32] = ValueAndGradient(c, DType::kFloat32);
    const auto [y16, dqkv16] = ValueAndGradient(c, DType::kBFloat16);
    EXPECT_LT(Difference(dqkv32, dqkv), kFloatRounding * std::max(1.0, Largest(dqkv)));
    EXPECT_LT(Difference(y16, y), kBFloat16Rounding * std::max(1.0, Largest(y)));
    EXPECT_LT(Difference(dqkv16, dqkv), kBFloat16Rounding * std::max(1.0, Largest(dqkv)));
  }
}

TEST(Attention, SameBitsOnAnyNumberOfThreads) {
  const int threads = ThreadCount();
  for (const Case& c : kCases) {
    SCOPED_TRACE(testing::PrintToString(c));
    SetThreadCount(1);
    const auto one = ValueAndGradient(c, DType::kFloat32);
    SetThreadCount(4);
    EXPECT_EQ(ValueAndGradient(c, DType::kFloat32), one);
  }
  SetThreadCount(threads);
}

TEST(Attention, LargeScoresDoNotOverflow) {
  // One key dominates every softmax: y is that key's value.
  std::vector<float> qkv(3 * 70, 0.0f);
  for (size_t t = 0; t < 70; ++t) {
    qkv[3 * t] = 1e4f;
    qkv[3 * t + 1] = t == 66 ? 1e4f : -1e4f;
    qkv[3 * t + 2] = static_cast<float>(t);
  }
  const Tensor y = Attention(Tensor::FromHost<float>({1, 70, 3}, qkv), {.heads = 1});
  EXPECT_EQ(y.ToHost<float>(), std::vector<float>(70, 66.0f));
}

TEST(Attention, CausalTokensDoNotSeeTheFuture) {
  const Case c{1, 140, 2, 8, true, 0};
  const Tensor qkv = Converted(RandomTensor(c.shape(), 5), DType::kFloat32);
  std::vector<float> changed = qkv.ToHost<float>();
  const size_t row = static_cast<size_t>(c.shape()[2]);
  std::fill(changed.begin() + static_cast<ptrdiff_t>(100 * row), changed.end(), 3.0f);
  std::vector<float> y = Attention(qkv, c.options()).ToHost<float>();
  std::vector<float> z =
      Attention(Tensor::FromHost<float>(c.shape(), changed), c.options()).ToHost<float>();
  y.resize(100 * row / 3);
  z.resize(100 * row / 3);
  EXPECT_EQ(y, z);
}

TEST(Attention, DecodingEqualsTheFullPass) {
  for (DType dtype : {DType::kFloat64, DType::kFloat32}) {
    const Case c{2, 90, 3, 5, true, 0};
    const int64_t width = 15, prompt = 70;
    const Tensor qkv = Converted(RandomTensor(c.shape(), 9), dtype);
    const std::vector<double> full = Attention(qkv, c.options()).ToHost<double>();
    const std::vector<double> all = qkv.ToHost<double>();
    // Rows [first, first + count) of every sequence.
    auto tokens = [&](int64_t first, int64_t count, const std::vector<double>& from, int64_t row) {
      std::vector<double> rows;
      for (int64_t b = 0; b < c.batch; ++b) {
        const auto begin = from.begin() + (b * c.tokens + first) * row;
        rows.insert(rows.end(), begin, begin + count * row);
      }
      return rows;
    };
    auto input = [&](int64_t first, int64_t count, Shape shape) {
      return Converted(Tensor::FromHost<double>(shape, tokens(first, count, all, 3 * width)),
                       dtype);
    };
    KeyValueCache cache = KeyValueCache::Empty(c.batch, 128, width, dtype);
    const Tensor y =
        AttentionPrefill(input(0, prompt, {c.batch, prompt, 3 * width}), c.heads, cache);
    EXPECT_EQ(y.ToHost<double>(), tokens(0, prompt, full, width));
    for (int64_t t = prompt; t < c.tokens; ++t) {
      const Tensor step = AttentionStep(cache, input(t, 1, {c.batch, 3 * width}), c.heads, t);
      EXPECT_LT(Difference(step.ToHost<double>(), tokens(t, 1, full, width)),
                dtype == DType::kFloat64 ? kDoubleRounding : kFloatRounding);
    }
  }
}

TEST(Attention, ShapeErrorsNameTheRule) {
  EXPECT_EQ(AttentionShape({2, 8, 36}, 4).value(), (Shape{2, 8, 12}));
  EXPECT_EQ(AttentionShape({2, 36}, 4).status().message(),
            "Attention: qkv must be [B, T, 3C], not [2, 36]");
  EXPECT_EQ(AttentionShape({2, 8, 30}, 4).status().message(),
            "Attention: 30 channels are not q, k and v of 4 heads (qkv [2, 8, 30])");
}

TEST(AttentionDeathTest, CacheHasAnEnd) {
  KeyValueCache cache = KeyValueCache::Empty(1, 4, 2, DType::kFloat32);
  EXPECT_DEATH(AttentionStep(cache, Tensor::Zeros({1, 6}, DType::kFloat32), 1, 4),
               "position 4 in a cache of 4 tokens");
}

}  // namespace
}  // namespace tost::ops
