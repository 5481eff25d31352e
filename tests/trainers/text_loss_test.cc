#include "trainers/text_loss.h"

#include <algorithm>
#include <cmath>

#include "data/character_vocabulary.h"
#include "data/tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"
#include "tests/models/tiny_model.h"

namespace tost::train {
namespace {

using models::TinyModel;

constexpr char32_t kFirst = U'0';  // ids are characters from here on
constexpr int64_t kContext = 16, kVocabulary = 37;

data::Tokenizer Characters() {
  std::u32string all;
  for (int64_t i = 0; i < kVocabulary; ++i) all += kFirst + static_cast<char32_t>(i);
  return data::Tokenizer::OfCharacters(data::CharacterVocabulary::Of(all));
}

// −log p of tokens[i] in a window that begins at `begin`, from the logits of that window's tokens
// before it and of no others.
double LossAt(const models::LanguageModel& model, const std::vector<int32_t>& tokens, size_t begin,
              size_t i) {
  const std::span<const int32_t> window = std::span(tokens).subspan(begin, i - begin);
  const Tensor input = Tensor::FromHost({1, static_cast<int64_t>(window.size())}, window);
  models::Pass pass;
  const std::vector<float> logits = model.Logits(input, pass).ToHost();
  const std::span<const float> last = std::span(logits).last(kVocabulary);
  double sum = 0;
  for (const float logit : last) sum += std::exp(static_cast<double>(logit));
  return std::log(sum) - static_cast<double>(last[static_cast<size_t>(tokens[i])]);
}

// The formula of the header, token by token.
TextLoss SlidingByHand(const models::LanguageModel& model, const std::vector<int32_t>& tokens,
                       size_t stride) {
  TextLoss loss;
  for (size_t i = 1; i < tokens.size(); ++i) {
    const size_t windows = i <= kContext ? 0 : (i - kContext + stride - 1) / stride;
    loss.Add(static_cast<int64_t>(i - windows * stride),
             LossAt(model, tokens, windows * stride, i));
  }
  return loss;
}

class TextLossTest : public testing::Test {
 protected:
  // A file of these ids.
  data::TextTokens Text(const std::vector<int32_t>& ids, size_t piece = 7) {
    WriteBytes(folder_.File("a.txt"), Characters().Decode(ids));
    return *data::TextTokens::Open(folder_.File("a.txt"), Characters(), piece);
  }
  TextLoss Sliding(const TinyModel& tiny, const std::vector<int32_t>& ids, int64_t stride,
                   int64_t batch = 4) {
    data::TextTokens text = Text(ids);
    EvaluationProgress progress("bytes", static_cast<int64_t>(ids.size()));
    const ScoringOptions options{.batch = batch};
    return *SlidingWindowLoss(tiny.model, text, stride, options, progress);
  }
  absl::StatusOr<TextLoss> Streaming(const TinyModel& tiny, const std::vector<int32_t>& ids) {
    data::TextTokens text = Text(ids);
    EvaluationProgress progress("bytes", static_cast<int64_t>(ids.size()));
    return StreamingLoss(tiny.model, text, {}, progress);
  }
  TemporaryFolder folder_;
};

void ExpectSame(const TextLoss& actual, const TextLoss& expected) {
  EXPECT_EQ(actual.tokens, expected.tokens);
  EXPECT_NEAR(actual.Mean(), expected.Mean(), 1e-5);
  const auto buckets = actual.by_position.Buckets();
  const auto expected_buckets = expected.by_position.Buckets();
  ASSERT_EQ(buckets.size(), expected_buckets.size());
  for (size_t i = 0; i < buckets.size(); ++i) {
    EXPECT_EQ(buckets[i].count, expected_buckets[i].count) << i;
    EXPECT_EQ(buckets[i].last, expected_buckets[i].last) << i;
    EXPECT_NEAR(buckets[i].Mean(), expected_buckets[i].Mean(), 1e-5) << i;
  }
}

TEST_F(TextLossTest, SlidingWindowsEqualTheFormula) {
  const TinyModel tiny({.context = kContext, .vocabulary = kVocabulary});
  for (size_t length : {2u, 16u, 17u, 18u, 33u, 100u}) {
    const std::vector<int32_t> ids = models::SomeIds(static_cast<int64_t>(length), kVocabulary);
    for (size_t stride : {1u, 8u, 15u, 16u}) {
      const TextLoss loss = Sliding(tiny, ids, static_cast<int64_t>(stride));
      EXPECT_EQ(loss.tokens, static_cast<int64_t>(length) - 1) << "every token but the first once";
      ExpectSame(loss, SlidingByHand(tiny.model, ids, stride));
    }
  }
}

TEST_F(TextLossTest, BatchesDoNotChangeTheLoss) {
  const TinyModel tiny(
      {.mixer = models::Mixer::kAttention, .context = kContext, .vocabulary = kVocabulary});
  const std::vector<int32_t> ids = models::SomeIds(100, kVocabulary);
  const TextLoss expected = SlidingByHand(tiny.model, ids, 8);
  for (int64_t batch : {1, 2, 5, 64}) ExpectSame(Sliding(tiny, ids, 8, batch), expected);
}

TEST_F(TextLossTest, StreamingEqualsTokenByToken) {
  const TinyModel tiny({.context = kContext, .vocabulary = kVocabulary});
  const std::vector<int32_t> ids = models::SomeIds(1500, kVocabulary);
  TextLoss expected;
  models::LanguageDecoder decoder(tiny.model, 1);
  for (size_t i = 0; i + 1 < ids.size(); ++i) {
    const auto token = [&](size_t at) { return Tensor::FromHost<int32_t>({1, 1}, {&ids[at], 1}); };
    const auto scores = decoder.Continue(token(i), token(i + 1), kVocabulary);
    expected.Add(static_cast<int64_t>(i) + 1, static_cast<double>(scores.losses[0]));
  }
  const TextLoss streamed = *Streaming(tiny, ids);
  EXPECT_EQ(streamed.tokens, 1499);
  ExpectSame(streamed, expected);
  EXPECT_GT(std::abs(streamed.Mean() - Sliding(tiny, ids, 8).Mean()), 1e-4);
}

TEST_F(TextLossTest, StreamingAndWindowsAgreeInsideTheContext) {
  const TinyModel tiny({.context = kContext, .vocabulary = kVocabulary});
  const std::vector<int32_t> ids = models::SomeIds(kContext + 1, kVocabulary);
  ExpectSame(*Streaming(tiny, ids), Sliding(tiny, ids, 3));
}

TEST_F(TextLossTest, TextsTooShortAreOneLine) {
  const TinyModel tiny({.context = kContext, .vocabulary = kVocabulary});
  ExpectOneLine(Streaming(tiny, {}).status(), {"no token", "two"});
  data::TextTokens text = Text({5});
  EvaluationProgress progress("bytes", 1);
  ExpectOneLine(SlidingWindowLoss(tiny.model, text, 8, {}, progress).status(),
                {"one token", "two"});
}

TEST_F(TextLossTest, RandomWindowsAreWindowsOfTheStream) {
  const TinyModel tiny({.context = kContext, .vocabulary = kVocabulary});
  auto random = [&](const std::vector<int32_t>& ids, uint64_t seed, int64_t batch) {
    EvaluationProgress progress("windows", 30);
    const ScoringOptions options{.batch = batch};
    return *RandomWindowLoss(tiny.model, ids, 30, seed, options, progress);
  };
  // One place only: every draw gives it.
  const std::vector<int32_t> one = models::SomeIds(kContext + 1, kVocabulary);
  const TextLoss repeated = random(one, 1, 4);
  EXPECT_EQ(repeated.tokens, 30 * kContext);
  EXPECT_NEAR(repeated.Mean(), SlidingByHand(tiny.model, one, 1).Mean(), 1e-5);
  // Two places: the mean lies between theirs.
  const std::vector<int32_t> two = models::SomeIds(kContext + 2, kVocabulary);
  const std::vector<int32_t> second(two.begin() + 1, two.end());
  const double a = SlidingByHand(tiny.model, one, 1).Mean();
  const double b = SlidingByHand(tiny.model, second, 1).Mean();
  const double share = (random(two, 1, 4).Mean() - b) / (a - b);
  EXPECT_NEAR(share * 30, std::round(share * 30), 1e-2);
  EXPECT_GT(share, 0.2);
  EXPECT_LT(share, 0.8);

  const std::vector<int32_t> ids = models::SomeIds(200, kVocabulary);
  ExpectSame(random(ids, 1, 30), random(ids, 1, 7));
  EXPECT_NE(random(ids, 1, 30).sum, random(ids, 2, 30).sum);
}

TEST(LossByPosition, BucketsArePowersOfTwo) {
  LossByPosition losses;
  for (int64_t position = 1; position <= 11; ++position) {
    losses.Add(position, static_cast<double>(position));
  }
  const auto buckets = losses.Buckets();
  ASSERT_EQ(buckets.size(), 5u);
  const int64_t first[] = {1, 2, 3, 5, 9}, last[] = {1, 2, 4, 8, 11};
  for (size_t i = 0; i < buckets.size(); ++i) {
    EXPECT_EQ(buckets[i].first, first[i]);
    EXPECT_EQ(buckets[i].last, last[i]);
    EXPECT_EQ(buckets[i].count, last[i] - first[i] + 1);
    EXPECT_DOUBLE_EQ(buckets[i].Mean(), static_cast<double>(first[i] + last[i]) / 2);
  }
}

}  // namespace
}  // namespace tost::train
