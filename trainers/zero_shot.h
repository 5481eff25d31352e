// Word prediction and cloze tests of language models that were not trained on them.
//
// The standard protocols are those of the papers, the official ones those of the scripts behind the
// published ToST figures. Sums run over tokens; p is the model's softmax.
//
// LAMBADA. A passage is a context c and its last word: everything after the last space.
//   standard: the tokens of c, then those of " " + word.
//     accuracy    share of passages in which every token of the word is the most likely one after
//                 the true tokens before it
//     perplexity  exp(Σ −log p(token) / words), over the tokens of all words
//   official: “ and ” become "; the tokens of "\n" + c; ten tokens drawn greedily.
//     accuracy    share of passages whose word, lower-cased, occurs in the lower-cased continuation
//
// Children's Book Test. One text per candidate: the twenty sentences and the question, joined by
// spaces, with the candidate in the blank. The guess is the candidate with the largest score, the
// first of equals.
//   standard: score = Σ log p over the question from the word with the blank on, given all before.
//   official: end-of-text, text, end-of-text: score = Σ log p over all tokens of the text.
//
// What is longer than the model's context loses tokens on the left (after the official end-of-text;
// as many for each candidate of a question) and is counted as truncated.
#ifndef TOST_TRAINERS_ZERO_SHOT_H_
#define TOST_TRAINERS_ZERO_SHOT_H_

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "data/tokenizer.h"
#include "data/zero_shot_sets.h"
#include "models/language_model.h"
#include "trainers/sequence_scores.h"

namespace tost::train {

struct Accuracy {
  int64_t examples = 0;
  int64_t correct = 0;
  int64_t truncated = 0;

  double Share() const { return static_cast<double>(correct) / static_cast<double>(examples); }
  double StandardError() const;  // √(p(1 − p)/n)
};

struct WordPrediction {
  Accuracy accuracy;
  double loss = 0;     // nats, of all target words
  int64_t tokens = 0;  // of all target words
};

// What an evaluation needs besides its examples. `source` names the examples' file in errors: a
// text that the tokenizer cannot encode, a target longer than the context. All may be Cancelled.
struct ZeroShotSubject {
  const models::LanguageModel& model;
  const data::Tokenizer& tokenizer;
  ScoringOptions options;
  std::string source;
};

// Progress counts passages.
absl::StatusOr<WordPrediction> PredictLastWords(const ZeroShotSubject& subject,
                                                std::span<const std::string> passages,
                                                EvaluationProgress& progress);
absl::StatusOr<Accuracy> ContinueGreedily(const ZeroShotSubject& subject,
                                          std::span<const std::string> passages,
                                          EvaluationProgress& progress);

// Progress counts candidates.
absl::StatusOr<Accuracy> AnswerCloze(const ZeroShotSubject& subject,
                                     std::span<const data::ClozeQuestion> questions,
                                     EvaluationProgress& progress);
// The tokenizer has an end_of_text() (CHECKed).
absl::StatusOr<Accuracy> AnswerClozeOfficially(const ZeroShotSubject& subject,
                                               std::span<const data::ClozeQuestion> questions,
                                               EvaluationProgress& progress);

// As Python's str.lower(). Bytes that are no UTF-8 become U+FFFD.
std::string LowerCased(absl::string_view text);

}  // namespace tost::train

#endif  // TOST_TRAINERS_ZERO_SHOT_H_
