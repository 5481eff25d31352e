// Acceptance statements T5 and T7 to T9.
#include <cmath>
#include <numeric>

#include "autograd/device.h"
#include "autograd/gradcheck.h"
#include "gtest/gtest.h"
#include "ops/tssa.h"

namespace tost {
namespace {

using ops::CausalTssa;
using ops::CausalTssaState;
using ops::TssaDims;

Tensor Float(const Tensor& x) { return Converted(x, DType::kFloat32); }

void ExpectValues(const Tensor& actual, const std::vector<double>& expected, double tolerance) {
  const std::vector<double> values = actual.ToHost<double>();
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], tolerance) << i;
}

// The first channel of the last head of the last token: 2³¹ elements lie before it at 262144
// tokens, which no 32-bit offset can say.
TEST(T5, OffsetsAre64Bit) {
  constexpr int64_t kHeads = 64, kHeadDim = 128;
  for (const int64_t tokens : {262143, 262144}) {
    const TssaDims dims{2, tokens, kHeads, kHeadDim};
    EXPECT_EQ(dims.width(), 8192);
    EXPECT_EQ(dims.ChannelOffset(0, tokens - 1, kHeads - 1), tokens * 8192 - 128);
    EXPECT_EQ(dims.ChannelOffset(1, 0, 0), tokens * 8192);
    EXPECT_EQ(dims.ChannelOffset(1, tokens - 1, kHeads - 1), 2 * tokens * 8192 - 128);
    EXPECT_EQ(dims.MembershipOffset(1, tokens - 1, kHeads - 1), 2 * tokens * 64 - 1);
  }
  constexpr TssaDims kLong{2, 262144, kHeads, kHeadDim};
  static_assert(kLong.ChannelOffset(1, 0) == int64_t{1} << 31);
  static_assert(kLong.ChannelOffset(1, 262143, 63) == (int64_t{1} << 32) - 128);
}

// One sequence, two heads of width 2, three tokens; channels head-major.
//            head 0     head 1
//   token 0   1   2      0   1
//   token 1   2  −1      1   0
//   token 2   2   2     −1   0
const std::vector<double> kTokens = {1, 2, 0, 1, 2, -1, 1, 0, 2, 2, -1, 0};
const std::vector<double> kTemp = {1, 2};
// bias[h][t]; temp · (q + 2 bias) are the logits of the causal variant.
const std::vector<double> kBias = {0, 0.1, -0.2, 0.3, 0, 0.1};
// The fixture's numbers are given to nine decimals.
constexpr double kFixtureTolerance = 1e-6;

class T7 : public testing::TestWithParam<DType> {
 protected:
  Tensor Make(Shape shape, const std::vector<double>& values) const {
    const Tensor exact = Tensor::FromHost(shape, values);
    return GetParam() == DType::kFloat64 ? exact : Float(exact);
  }
  Tensor w() const { return Make({1, 3, 4}, kTokens); }
  Tensor temp() const { return Make({2, 1}, kTemp); }
  Tensor bias() const { return Make({2, 3, 1}, kBias); }
};

// Energies Σ w² per channel: 9, 9 | 2, 1.
// q: token 0: 1/9 + 4/9 = 5/9 | 0/2 + 1/1 = 1;  token 1: 5/9 | 1/2;  token 2: 8/9 | 1/2.
// Logits temp · q: (5/9, 2), (5/9, 1), (8/9, 1); Π of head 0 = 1/(1 + exp(difference)):
//   1/(1 + e^(13/9)) = 0.190858044,  1/(1 + e^(4/9)) = 0.390682458,  1/(1 + e^(1/9)) = 0.472250765.
// s = Σ Π w² / Σ Π: head 0: 3.643389/1.053791 = 3.456653, 3.043119/1.053791 = 2.887780;
//   head 1: 1.137067/1.946209 = 0.584247, 0.809142/1.946209 = 0.415753.
// y = −w Π / (1 + s).
TEST_P(T7, Tssa) {
  ExpectValues(ops::TssaMemberships(w(), temp()),
               {0.190858044, 0.809141956, 0.390682458, 0.609317542, 0.472250765, 0.527749235},
               kFixtureTolerance);
  ExpectValues(ops::Tssa(w(), temp()),
               {-0.042825420, -0.098183554, 0, -0.571527664,  //
                -0.175325494, 0.100489850, -0.384610172, 0,   //
                -0.211930679, -0.242941076, 0.333123060, 0},
               kFixtureTolerance);
}

// Running energies: token 0: 1, 4 | 0, 1;  token 1: 5, 5 | 1, 1;  token 2: 9, 9 | 2, 1.
// q: token 0: 1/1 + 4/4 = 2 | 0 + 1 = 1;  token 1: 4/5 + 1/5 = 1 | 1 + 0 = 1;
//   token 2: 4/9 + 4/9 = 8/9 | 1/2 + 0 = 1/2.
// q + 2 bias: (2, 1.6), (1.2, 1), (0.488889, 0.7); logits: (2, 3.2), (1.2, 2), (0.488889, 1.4).
// Π of head 0: 1/(1 + e^1.2) = 0.231475217, 1/(1 + e^0.8) = 0.310025519,
//   1/(1 + e^0.911111) = 0.286772523.
// s = (Σ Π w² up to the token) / (Σ Π up to it + 1e-8):
//   token 0: 1, 4 | 0, 1;
//   token 1: (0.231475 + 1.240102)/0.541501 = 2.717591, (0.925901 + 0.310026)/0.541501 = 2.282409 |
//     0.689974/1.458499 = 0.473072, 0.768525/1.458499 = 0.526928;
//   token 2: 3.161598, 2.877090 | 0.646123, 0.353877.
TEST_P(T7, CausalTssa) {
  ExpectValues(ops::CausalTssaMemberships(w(), temp(), bias()),
               {0.231475217, 0.768524783, 0.310025519, 0.689974481, 0.286772523, 0.713227477},
               kFixtureTolerance);
  ExpectValues(CausalTssa(w(), temp(), bias()),
               {-0.115737611, -0.092590090, 0, -0.384262394,  //
                -0.166788417, 0.094450595, -0.468391703, 0,   //
                -0.137818454, -0.147931849, 0.433277225, 0},
               kFixtureTolerance);
}

TEST_P(T7, MembershipsSumToOneOverHeadsAndNotOverTokens) {
  constexpr int64_t kSequences = 2, kCount = 70, kHeads = 5;
  const Tensor random_w = Converted(RandomTensor({kSequences, kCount, kHeads * 3}, 1), GetParam());
  const Tensor random_temp = Converted(RandomTensor({kHeads, 1}, 2, 0.5, 3), GetParam());
  const Tensor random_bias = Converted(RandomTensor({kHeads, kCount, 1}, 3, -0.5, 0.5), GetParam());
  for (const Tensor& pi : {ops::TssaMemberships(random_w, random_temp),
                           ops::CausalTssaMemberships(random_w, random_temp, random_bias)}) {
    EXPECT_EQ(pi.shape(), (Shape{kSequences, kCount, kHeads}));
    const std::vector<double> values = pi.ToHost<double>();
    for (auto token = values.begin(); token != values.end(); token += kHeads) {
      EXPECT_NEAR(std::accumulate(token, token + kHeads, 0.0), 1, kFixtureTolerance);
    }
    double over_tokens = 0;
    for (size_t t = 0; t < kCount; ++t) over_tokens += values[t * kHeads];
    EXPECT_GT(std::abs(over_tokens - 1), 1);
  }
}

INSTANTIATE_TEST_SUITE_P(, T7, testing::Values(DType::kFloat32, DType::kFloat64),
                         [](const auto& type) { return Name(type.param); });

// Two heads of 64 channels with the same content: without a bias their memberships are equal, and
// log(Π₀ / Π₁) is the difference of the logits.
TEST(T8, ABiasOfATenthMovesTheLogitBySixPointFour) {
  constexpr int64_t kHeadDim = 64, kCount = 3;
  std::vector<double> w;
  for (int64_t t = 0; t < kCount; ++t) {
    const auto head = RandomTensor({kHeadDim}, static_cast<uint64_t>(t + 1)).ToHost<double>();
    w.insert(w.end(), head.begin(), head.end());
    w.insert(w.end(), head.begin(), head.end());
  }
  const Tensor temp = Tensor::FromHost({2, 1}, std::vector<double>{1, 1});
  const Tensor bias = Tensor::FromHost({2, kCount, 1}, std::vector<double>{0, 0.1, 0, 0, 0, 0});
  const std::vector<double> pi =
      ops::CausalTssaMemberships(Tensor::FromHost({1, kCount, 2 * kHeadDim}, w), temp, bias)
          .ToHost<double>();
  EXPECT_NEAR(std::log(pi[0] / pi[1]), 0, 1e-12);
  EXPECT_NEAR(std::log(pi[2] / pi[3]), 6.4, 1e-12);
  EXPECT_NEAR(std::log(pi[4] / pi[5]), 0, 1e-12);
}

// Rows [first, first + rows) of the tokens of w [B, T, C].
Tensor TokenRows(const Tensor& w, int64_t first, int64_t rows) {
  const int64_t batch = w.shape()[0], tokens = w.shape()[1], width = w.shape()[2];
  const std::vector<float> all = w.ToHost();
  std::vector<float> part;
  for (int64_t b = 0; b < batch; ++b) {
    const auto begin = all.begin() + (b * tokens + first) * width;
    part.insert(part.end(), begin, begin + rows * width);
  }
  return Tensor::FromHost({batch, rows, width}, part);
}

class T9 : public testing::Test {
 protected:
  static constexpr int64_t kBatch = 2, kTokensInAll = 130, kHeads = 3, kHeadDim = 7;
  static constexpr int64_t kWidth = kHeads * kHeadDim;
  static constexpr double kTolerance = 1e-5;  // the statement's, for outputs below 1

  Tensor Step(CausalTssaState& state, int64_t t) const {
    return ops::CausalTssaStep(state, TokenRows(w, t, 1).Reshaped({kBatch, kWidth}), temp, bias, t);
  }
  static CausalTssaState Start() { return CausalTssaState::Zeros(kBatch, kHeads, kHeadDim); }
  static void ExpectNear(const Tensor& a, const Tensor& b) {
    ExpectValues(a, b.ToHost<double>(), kTolerance);
  }

  const Tensor w = Float(RandomTensor({kBatch, kTokensInAll, kWidth}, 1, -2, 2));
  const Tensor temp = Float(RandomTensor({kHeads, 1}, 2, 0.5, 2));
  const Tensor bias = Float(RandomTensor({kHeads, kTokensInAll, 1}, 3, -0.1, 0.1));
};

TEST_F(T9, StreamingEqualsTheFullPassForAllPrefixLengths) {
  CausalTssaState state = Start();
  for (int64_t length = 1; length <= kTokensInAll; ++length) {
    SCOPED_TRACE(length);
    const Tensor full = CausalTssa(TokenRows(w, 0, length), temp, bias);
    ExpectNear(Step(state, length - 1).Reshaped({kBatch, 1, kWidth}),
               TokenRows(full, length - 1, 1));
  }
}

TEST_F(T9, PrefillThenStepsEqualTheFullPass) {
  const Tensor full = CausalTssa(w, temp, bias);
  for (const int64_t prompt : {1, 31, 32, 33, 64, 100, 129}) {
    SCOPED_TRACE(prompt);
    CausalTssaState state = Start();
    ExpectNear(ops::CausalTssaPrefill(state, TokenRows(w, 0, prompt), temp, bias),
               TokenRows(full, 0, prompt));
    for (int64_t t = prompt; t < kTokensInAll; ++t) {
      ExpectNear(Step(state, t).Reshaped({kBatch, 1, kWidth}), TokenRows(full, t, 1));
    }
  }
}

TEST_F(T9, PrefillInPiecesEqualsTheFullPass) {
  const Tensor full = CausalTssa(w, temp, bias);
  CausalTssaState state = Start();
  int64_t done = 0;
  for (const int64_t piece : {1, 40, 64, 25}) {
    ExpectNear(ops::CausalTssaPrefill(state, TokenRows(w, done, piece), temp, bias, done),
               TokenRows(full, done, piece));
    done += piece;
  }
  EXPECT_EQ(done, kTokensInAll);
}

TEST_F(T9, MemoryPerTokenIsConstant) {
  CausalTssaState state = Start();
  const auto memory = [] { return RuntimeOf(Device::Cpu()).Memory(); };
  std::vector<Tensor> tokens;
  for (int64_t t = 0; t < kTokensInAll; ++t) {
    tokens.push_back(TokenRows(w, t, 1).Reshaped({kBatch, kWidth}));
  }
  int64_t first_peak = 0;
  const int64_t live = memory().live_bytes;
  for (int64_t t = 0; t < kTokensInAll; ++t) {
    RuntimeOf(Device::Cpu()).ResetPeakMemory();
    ops::CausalTssaStep(state, tokens[static_cast<size_t>(t)], temp, bias, t);
    EXPECT_EQ(memory().live_bytes, live) << t;
    if (t == 0) first_peak = memory().peak_bytes;
    EXPECT_EQ(memory().peak_bytes, first_peak) << t;
  }
  EXPECT_EQ(state.energy.numel() + state.weighted_energy.numel() + state.membership.numel(),
            kBatch * (2 * kWidth + kHeads));
}

}  // namespace
}  // namespace tost
