#include "models/target_scores.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/models/tiny_model.h"

namespace tost::models {
namespace {

Tensor Row(std::span<const int32_t> ids) {
  return Tensor::FromHost({1, static_cast<int64_t>(ids.size())}, ids);
}

// Scores from one row of logits, in double.
double LossOf(std::span<const float> logits, int32_t target) {
  double sum = 0;
  for (float logit : logits) sum += std::exp(static_cast<double>(logit));
  return std::log(sum) - static_cast<double>(logits[static_cast<size_t>(target)]);
}

TEST(TargetScores, EqualThoseOfTheLogits) {
  constexpr int64_t kVocabulary = 37, kCandidates = 30, kBatch = 9, kLength = 33;
  for (Mixer mixer : {Mixer::kTssa, Mixer::kAttention}) {
    const TinyModel tiny({.mixer = mixer, .vocabulary = kVocabulary});
    const std::vector<int32_t> ids = SomeIds(kBatch * kLength, kVocabulary);
    const Tensor tokens = Tensor::FromHost({kBatch, kLength}, ids);
    Pass pass;
    const std::vector<float> logits = tiny.model.Logits(tokens, pass).ToHost();
    auto row = [&](size_t i) { return std::span(logits).subspan(i * kVocabulary, kVocabulary); };
    // Every third target is what the model finds most likely, some are ignored.
    std::vector<int32_t> targets = ids;
    for (size_t i = 0; i < targets.size(); ++i) {
      const auto known = row(i).first(kCandidates);
      if (i % 3 == 0) {
        targets[i] = static_cast<int32_t>(std::ranges::max_element(known) - known.begin());
      }
      if (i % 7 == 2) targets[i] = -1;
    }
    const TargetScores scores =
        tiny.model.Scores(tokens, Tensor::FromHost({kBatch, kLength}, targets), kCandidates, pass);
    size_t next = 0, most_likely = 0;
    for (size_t i = 0; i < targets.size(); ++i) {
      if (targets[i] == -1) continue;
      ASSERT_LT(next, scores.losses.size());
      EXPECT_NEAR(scores.losses[next], LossOf(row(i), targets[i]), 2e-5);
      const auto known = row(i).first(kCandidates);
      const bool expected = std::ranges::max_element(known) - known.begin() == targets[i];
      EXPECT_EQ(scores.most_likely[next], expected) << i;
      most_likely += expected ? 1 : 0;
      ++next;
    }
    EXPECT_EQ(next, scores.losses.size());
    EXPECT_GT(most_likely, next / 4);
    EXPECT_LT(most_likely, next);
  }
}

TEST(TargetScores, SumToTheLossInBothDTypes) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const TinyModel tiny({.compute_dtype = dtype});
    const std::vector<int32_t> ids = SomeIds(4 * 20, 37);
    const Tensor tokens = Tensor::FromHost({4, 20}, ids);
    Pass pass{.compute_dtype = dtype};
    double sum = 0;
    for (float loss : tiny.model.Scores(tokens, tokens, 37, pass).losses) {
      sum += static_cast<double>(loss);
    }
    EXPECT_NEAR(sum, tiny.model.Loss(tokens, tokens, pass).Item(), 1e-5 * sum) << Name(dtype);
    // Losses alone are the same.
    const TargetScores with = tiny.model.Scores(tokens, tokens, 37, pass);
    const TargetScores alone = tiny.model.Scores(tokens, tokens, 0, pass);
    EXPECT_THAT(alone.losses, testing::Pointwise(testing::FloatNear(1e-5f), with.losses));
    EXPECT_TRUE(alone.most_likely.empty());
  }
}

TEST(TargetScores, PaddingIsNeverMostLikelyAndTheFirstOfEqualsIs) {
  // logits = x wᵀ with x = 1: the rows of w themselves.
  const Tensor x = Tensor::FromHost({5, 1}, std::vector<float>(5, 1.0f));
  const Tensor w = Tensor::FromHost({6, 1}, std::vector<float>{0, 2, 1, 2, 0, 9});
  const Tensor targets = Tensor::FromHost({5}, std::vector<int32_t>{1, 3, 5, -1, 0});
  const TargetScores scores = ScoreTargets(x, w, targets, /*candidates=*/5);
  EXPECT_THAT(scores.most_likely, testing::ElementsAre(true, false, false, false));
  const std::vector<float> logits = {0, 2, 1, 2, 0, 9};
  EXPECT_NEAR(scores.losses[0], LossOf(logits, 1), 1e-6);
  EXPECT_NEAR(scores.losses[2], LossOf(logits, 5), 1e-6);
  EXPECT_THAT(ScoreTargets(x, w, targets, 6).most_likely,
              testing::ElementsAre(false, false, true, false));
}

TEST(TargetScores, NoTargetIsNoScore) {
  const TinyModel tiny({});
  const Tensor none = Row(std::vector<int32_t>{-1, -1, -1});
  Pass pass;
  for (int64_t candidates : {0, 37}) {
    EXPECT_TRUE(tiny.model.Scores(Row(SomeIds(3, 37)), none, candidates, pass).losses.empty());
  }
}

// The losses of ids[1] … read by Continue in pieces of the given length.
std::vector<float> Continued(const LanguageModel& model, const std::vector<int32_t>& ids,
                             size_t piece) {
  LanguageDecoder decoder(model, /*batch=*/1);
  std::vector<float> losses;
  for (size_t begin = 0; begin + 1 < ids.size(); begin += piece) {
    const size_t count = std::min(piece, ids.size() - 1 - begin);
    const std::span<const int32_t> all(ids);
    const TargetScores scores =
        decoder.Continue(Row(all.subspan(begin, count)), Row(all.subspan(begin + 1, count)), 37);
    losses.insert(losses.end(), scores.losses.begin(), scores.losses.end());
  }
  EXPECT_EQ(decoder.position(), static_cast<int64_t>(ids.size()) - 1);
  return losses;
}

void ExpectNear(const std::vector<float>& actual, const std::vector<float>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-5) << i;
}

TEST(LanguageDecoder, ContinueEqualsOnePassInsideTheContext) {
  const TinyModel tiny({.context = 140});
  const std::vector<int32_t> ids = SomeIds(141, 37);
  Pass pass;
  const std::span<const int32_t> all(ids);
  const std::vector<float> whole =
      tiny.model.Scores(Row(all.first(140)), Row(all.last(140)), 37, pass).losses;
  for (size_t piece : {1u, 3u, 32u, 33u, 64u, 140u}) {
    ExpectNear(Continued(tiny.model, ids, piece), whole);
  }
}

// A model that knows 100 positions, of which those from the 40th on are copies of the 40th, and is
// otherwise that of 40 positions.
TEST(LanguageDecoder, ContinueHoldsPositionsBeyondTheContext) {
  constexpr int64_t kContext = 40, kLonger = 100;
  const TinyModel tiny({.context = kContext});
  TinyModel longer({.context = kLonger});
  for (const Parameter& from : tiny.params.parameters()) {
    Tensor to = longer.params.Find(from.name())->value();
    const bool positions = from.name().ends_with("wpe.weight");
    const bool bias = from.name().ends_with("denom_bias");
    const int64_t heads = bias ? from.shape()[0] : 1, width = positions ? from.shape()[1] : 1;
    const int64_t rows = from.value().numel() / heads / width;
    const int64_t rows_to = to.numel() / heads / width;
    for (int64_t i = 0; i < to.numel(); ++i) {
      const int64_t head = i / width / rows_to, row = i / width % rows_to, column = i % width;
      to.mutable_data<float>()[i] =
          from.value().data<float>()[(head * rows + std::min(row, rows - 1)) * width + column];
    }
  }
  const std::vector<int32_t> ids = SomeIds(kLonger + 1, 37);
  const std::span<const int32_t> all(ids);
  Pass pass;
  const std::vector<float> expected =
      longer.model.Scores(Row(all.first(kLonger)), Row(all.last(kLonger)), 37, pass).losses;
  for (size_t piece : {1u, 7u, 40u, 41u, 100u}) {
    ExpectNear(Continued(tiny.model, ids, piece), expected);
  }
}

TEST(LanguageDecoder, ContinueFollowsPrefillAndStep) {
  const TinyModel tiny({});
  const std::vector<int32_t> ids = SomeIds(31, 37);
  const std::span<const int32_t> all(ids);
  LanguageDecoder decoder(tiny.model, 1);
  decoder.Prefill(Row(all.first(10)));
  decoder.Step(Row(all.subspan(10, 1)).Reshaped({1}));
  const TargetScores rest = decoder.Continue(Row(all.subspan(11, 19)), Row(all.last(19)), 37);
  const std::vector<float> whole = Continued(tiny.model, ids, 30);
  ExpectNear(rest.losses, std::vector<float>(whole.begin() + 11, whole.end()));
}

}  // namespace
}  // namespace tost::models
