// LAMBADA.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "autograd/base/errors.h"
#include "trainers/sample_language.h"
#include "trainers/zero_shot.h"
#include "unicode/locid.h"
#include "unicode/unistr.h"

namespace tost::train {
namespace {

constexpr int64_t kContinuation = 10;  // tokens

struct Passage {
  absl::string_view context;
  absl::string_view word;
};

// The reader has seen to it that there is a space.
Passage Divide(absl::string_view passage) {
  const size_t space = passage.rfind(' ');
  TOST_CHECK(space != absl::string_view::npos) << "a passage of one word";
  return {passage.substr(0, space), passage.substr(space + 1)};
}

absl::StatusOr<std::vector<int32_t>> Encode(const ZeroShotSubject& subject, absl::string_view text,
                                            size_t number) {
  std::vector<int32_t> ids;
  TOST_RETURN_IF_ERROR(
      subject.tokenizer.Encode(text, absl::StrCat(subject.source, ": passage ", number + 1), ids));
  return ids;
}

// The last `limit` of the tokens; whether some were dropped.
bool KeepLast(int64_t limit, std::vector<int32_t>& tokens) {
  const auto excess = static_cast<int64_t>(tokens.size()) - limit;
  if (excess <= 0) return false;
  tokens.erase(tokens.begin(), tokens.begin() + excess);
  return true;
}

absl::StatusOr<ScoredSequence> SequenceOf(const ZeroShotSubject& subject, absl::string_view text,
                                          size_t number, int64_t& truncated) {
  const int64_t context = subject.model.config().context;
  const Passage passage = Divide(text);
  ScoredSequence sequence;
  TOST_ASSIGN_OR_RETURN(sequence.tokens, Encode(subject, passage.context, number));
  TOST_ASSIGN_OR_RETURN(const std::vector<int32_t> word,
                        Encode(subject, absl::StrCat(" ", passage.word), number));
  sequence.scored = static_cast<int64_t>(word.size());
  if (sequence.scored > context) {
    return absl::InvalidArgumentError(
        absl::StrCat(subject.source, ": passage ", number + 1, ": its last word takes ",
                     sequence.scored, " tokens, more than the model's context of ", context));
  }
  sequence.tokens.insert(sequence.tokens.end(), word.begin(), word.end());
  truncated += KeepLast(context + 1, sequence.tokens) ? 1 : 0;
  return sequence;
}

// Draws greedily after prompts of one length, one row each.
class GreedyBatch {
 public:
  explicit GreedyBatch(const ZeroShotSubject& subject) : subject_(subject) {}

  std::vector<std::vector<int32_t>> Continue(std::span<const std::vector<int32_t>* const> prompts) {
    const auto rows = static_cast<int64_t>(prompts.size());
    const auto length = static_cast<int64_t>(prompts[0]->size());
    std::vector<int32_t> ids;
    for (const std::vector<int32_t>* prompt : prompts) {
      ids.insert(ids.end(), prompt->begin(), prompt->end());
    }
    const Device device = subject_.model.device();
    models::LanguageDecoder decoder(subject_.model, rows, subject_.options.compute_dtype);
    std::vector<std::vector<int32_t>> drawn(prompts.size());
    Tensor logits = decoder.Prefill(Tensor::FromHost({rows, length}, ids, device));
    for (int64_t i = 0;; ++i) {
      const std::vector<int32_t> next = MostLikely(logits);
      for (size_t row = 0; row < drawn.size(); ++row) drawn[row].push_back(next[row]);
      if (i == kContinuation - 1) return drawn;
      logits = decoder.Step(Tensor::FromHost({rows}, next, device));
    }
  }

 private:
  std::vector<int32_t> MostLikely(const Tensor& logits) const {
    const std::vector<float> all = logits.ToHost();
    const auto width = static_cast<size_t>(logits.shape()[1]);
    std::vector<int32_t> ids;
    for (size_t begin = 0; begin < all.size(); begin += width) {
      ids.push_back(ChooseToken(std::span(all).subspan(begin, width),
                                {.temperature = 0, .vocabulary = subject_.tokenizer.vocabulary()},
                                /*u=*/0));
    }
    return ids;
  }

  const ZeroShotSubject& subject_;
};

}  // namespace

double Accuracy::StandardError() const {
  return std::sqrt(Share() * (1 - Share()) / static_cast<double>(examples));
}

std::string LowerCased(absl::string_view text) {
  std::string lower;
  icu::UnicodeString::fromUTF8(icu::StringPiece(text.data(), static_cast<int32_t>(text.size())))
      .toLower(icu::Locale::getRoot())
      .toUTF8String(lower);
  return lower;
}

absl::StatusOr<WordPrediction> PredictLastWords(const ZeroShotSubject& subject,
                                                std::span<const std::string> passages,
                                                EvaluationProgress& progress) {
  ScoringOptions options = subject.options;
  options.candidates = subject.tokenizer.vocabulary();
  WordPrediction result;
  result.accuracy.examples = static_cast<int64_t>(passages.size());
  std::vector<ScoredSequence> sequences;
  for (size_t i = 0; i < passages.size(); ++i) {
    TOST_ASSIGN_OR_RETURN(ScoredSequence sequence,
                          SequenceOf(subject, passages[i], i, result.accuracy.truncated));
    result.tokens += sequence.scored;
    sequences.push_back(std::move(sequence));
  }
  TOST_ASSIGN_OR_RETURN(const std::vector<SequenceScore> scores,
                        ScoreSequences(subject.model, sequences, options, progress));
  for (const SequenceScore& score : scores) {
    result.loss += score.loss;
    result.accuracy.correct += score.most_likely ? 1 : 0;
  }
  return result;
}

absl::StatusOr<Accuracy> ContinueGreedily(const ZeroShotSubject& subject,
                                          std::span<const std::string> passages,
                                          EvaluationProgress& progress) {
  // The last token drawn is not read.
  const int64_t room = subject.model.config().context - (kContinuation - 1);
  if (room < 1) {
    return absl::InvalidArgumentError(absl::StrCat("the official accuracy draws ", kContinuation,
                                                   " tokens; the model's context of ",
                                                   room + kContinuation - 1, " is too short"));
  }
  Accuracy result{.examples = static_cast<int64_t>(passages.size())};
  std::vector<std::vector<int32_t>> prompts;
  std::vector<std::string> words;
  for (size_t i = 0; i < passages.size(); ++i) {
    const std::string text = absl::StrReplaceAll(passages[i], {{"\u201c", "\""}, {"\u201d", "\""}});
    const Passage passage = Divide(text);
    TOST_ASSIGN_OR_RETURN(std::vector<int32_t> prompt,
                          Encode(subject, absl::StrCat("\n", passage.context), i));
    result.truncated += KeepLast(room, prompt) ? 1 : 0;
    prompts.push_back(std::move(prompt));
    words.push_back(LowerCased(passage.word));
  }
  std::vector<size_t> order(passages.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return prompts[i].size(); });
  for (size_t begin = 0; begin < order.size();) {
    std::vector<const std::vector<int32_t>*> here;
    const size_t length = prompts[order[begin]].size();
    const auto rows = static_cast<size_t>(subject.options.batch);
    for (size_t k = begin; k < order.size() && here.size() < rows; ++k) {
      if (prompts[order[k]].size() != length) break;
      here.push_back(&prompts[order[k]]);
    }
    for (const std::vector<int32_t>& drawn : GreedyBatch(subject).Continue(here)) {
      const std::string continuation = LowerCased(subject.tokenizer.Decode(drawn));
      result.correct += absl::StrContains(continuation, words[order[begin++]]) ? 1 : 0;
    }
    TOST_RETURN_IF_ERROR(progress.Advance(static_cast<int64_t>(here.size())));
  }
  return result;
}

}  // namespace tost::train
