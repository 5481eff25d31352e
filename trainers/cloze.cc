// The Children's Book Test.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "autograd/base/errors.h"
#include "trainers/zero_shot.h"

namespace tost::train {
namespace {

using data::ClozeQuestion;

// Questions whose candidates are scored together, to be sorted by length: 320 sequences.
constexpr size_t kQuestions = 32;

// A candidate's tokens: `given`, then `scored`.
struct Candidate {
  std::vector<int32_t> given;
  std::vector<int32_t> scored;
};
using Candidates = std::array<Candidate, ClozeQuestion::kCandidates>;

std::string Filled(const ClozeQuestion& question, absl::string_view text, size_t candidate) {
  return absl::StrReplaceAll(text, {{ClozeQuestion::kBlank, question.candidates[candidate]}});
}

// Tokenizes the parts of a question's texts.
class ClozeEncoder {
 public:
  ClozeEncoder(const ZeroShotSubject& subject, const ClozeQuestion& question, size_t number)
      : subject_(subject),
        question_(question),
        source_(absl::StrCat(subject.source, ": question ", number + 1)),
        text_(absl::StrCat(absl::StrJoin(question.context, " "), " ", question.question)) {}

  // From the space before the word with the blank on; a space goes with what follows it in byte
  // pairs, so the tokens are those of the whole text.
  absl::StatusOr<Candidates> Standard() const {
    // The context may hold the blank's letters; the question's own blank is meant.
    const size_t blank =
        text_.find(ClozeQuestion::kBlank, text_.size() - question_.question.size());
    const size_t cut = text_.rfind(' ', blank);
    const absl::string_view text(text_);
    Candidates candidates;
    TOST_ASSIGN_OR_RETURN(const std::vector<int32_t> given, Encode(text.substr(0, cut)));
    for (size_t i = 0; i < candidates.size(); ++i) {
      candidates[i].given = given;
      TOST_ASSIGN_OR_RETURN(candidates[i].scored, Encode(Filled(question_, text.substr(cut), i)));
    }
    return candidates;
  }

  absl::StatusOr<Candidates> Official() const {
    Candidates candidates;
    const std::string context = absl::StrJoin(question_.context, " ");
    for (size_t i = 0; i < candidates.size(); ++i) {
      candidates[i].given = {*subject_.tokenizer.end_of_text()};
      TOST_ASSIGN_OR_RETURN(
          candidates[i].scored,
          Encode(absl::StrCat(context, " ", Filled(question_, question_.question, i))));
    }
    return candidates;
  }

  const std::string& source() const { return source_; }

 private:
  absl::StatusOr<std::vector<int32_t>> Encode(absl::string_view text) const {
    std::vector<int32_t> ids;
    TOST_RETURN_IF_ERROR(subject_.tokenizer.Encode(text, source_, ids));
    return ids;
  }

  const ZeroShotSubject& subject_;
  const ClozeQuestion& question_;
  std::string source_;
  std::string text_;
};

// Tokens by which the longest text exceeds the context; the last token is not read.
int64_t Excess(const Candidates& candidates, int64_t context) {
  size_t longest = 0;
  for (const Candidate& candidate : candidates) {
    longest = std::max(longest, candidate.given.size() + candidate.scored.size());
  }
  return std::max<int64_t>(static_cast<int64_t>(longest) - 1 - context, 0);
}

ScoredSequence Joined(const Candidate& candidate) {
  ScoredSequence sequence{.tokens = candidate.given,
                          .scored = static_cast<int64_t>(candidate.scored.size())};
  sequence.tokens.insert(sequence.tokens.end(), candidate.scored.begin(), candidate.scored.end());
  return sequence;
}

void DropFront(int64_t count, std::vector<int32_t>& tokens) {
  tokens.erase(tokens.begin(), tokens.begin() + count);
}

// Appends the ten sequences of a question.
absl::Status AddStandard(const ZeroShotSubject& subject, const ClozeEncoder& encoder,
                         std::vector<ScoredSequence>& sequences, int64_t& truncated) {
  TOST_ASSIGN_OR_RETURN(Candidates candidates, encoder.Standard());
  const int64_t context = subject.model.config().context;
  const int64_t excess = Excess(candidates, context);
  if (excess >= static_cast<int64_t>(candidates[0].given.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat(encoder.source(), ": the question from its blank on is longer than the ",
                     "model's context of ", context));
  }
  truncated += excess > 0 ? 1 : 0;
  for (Candidate& candidate : candidates) {
    DropFront(excess, candidate.given);
    sequences.push_back(Joined(candidate));
  }
  return absl::OkStatus();
}

absl::Status AddOfficial(const ZeroShotSubject& subject, const ClozeEncoder& encoder,
                         std::vector<ScoredSequence>& sequences, int64_t& truncated) {
  TOST_ASSIGN_OR_RETURN(Candidates candidates, encoder.Official());
  const int64_t context = subject.model.config().context;
  const int64_t excess = Excess(candidates, context);
  truncated += excess > 0 ? 1 : 0;
  for (Candidate& candidate : candidates) {
    if (excess >= static_cast<int64_t>(candidate.scored.size())) {
      return absl::InvalidArgumentError(
          absl::StrCat(encoder.source(),
                       ": its candidates differ by more than the model's context of ", context));
    }
    DropFront(excess, candidate.scored);
    sequences.push_back(Joined(candidate));
  }
  return absl::OkStatus();
}

template <class AddSequences>
absl::StatusOr<Accuracy> Answer(const ZeroShotSubject& subject,
                                std::span<const ClozeQuestion> questions,
                                EvaluationProgress& progress, AddSequences add) {
  Accuracy result{.examples = static_cast<int64_t>(questions.size())};
  for (size_t begin = 0; begin < questions.size(); begin += kQuestions) {
    const size_t end = std::min(questions.size(), begin + kQuestions);
    std::vector<ScoredSequence> sequences;
    for (size_t i = begin; i < end; ++i) {
      const ClozeEncoder encoder(subject, questions[i], i);
      TOST_RETURN_IF_ERROR(add(subject, encoder, sequences, result.truncated));
    }
    TOST_ASSIGN_OR_RETURN(const std::vector<SequenceScore> scores,
                          ScoreSequences(subject.model, sequences, subject.options, progress));
    for (size_t i = begin; i < end; ++i) {
      const auto first = std::span(scores).subspan((i - begin) * ClozeQuestion::kCandidates,
                                                   ClozeQuestion::kCandidates);
      const auto best = std::ranges::min_element(first, {}, &SequenceScore::loss);
      result.correct += static_cast<size_t>(best - first.begin()) == questions[i].answer ? 1 : 0;
    }
  }
  return result;
}

}  // namespace

absl::StatusOr<Accuracy> AnswerCloze(const ZeroShotSubject& subject,
                                     std::span<const ClozeQuestion> questions,
                                     EvaluationProgress& progress) {
  return Answer(subject, questions, progress, AddStandard);
}

absl::StatusOr<Accuracy> AnswerClozeOfficially(const ZeroShotSubject& subject,
                                               std::span<const ClozeQuestion> questions,
                                               EvaluationProgress& progress) {
  TOST_CHECK(subject.tokenizer.end_of_text().has_value()) << "the protocol needs end-of-text";
  return Answer(subject, questions, progress, AddOfficial);
}

}  // namespace tost::train
