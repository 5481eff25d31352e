// The loss of a language model on running text.
//
// A text of tokens x_0 … x_{n−1} is scored with a model of context T in one of three ways.
//   Sliding windows, stride S ≤ T: window k reads x_{kS} … x_{kS+T−1}. The first scores its T
//     targets x_1 … x_T, each later one its last S, x_{kS+T−S+1} … x_{kS+T}. So every token but x_0
//     is scored once, and from the second window on each is predicted from at least T − S + 1.
//   Streaming (ToST): one pass whose running sums are never reset; x_i is predicted from all i
//     tokens before it. See LanguageDecoder::Continue for positions beyond the context.
//   Random windows, the official scripts' estimate: T targets at each of many positions drawn
//     uniformly from 0 … n − T − 1.
// The first two hold a window or chunk of the text in memory, not the text.
#ifndef TOST_TRAINERS_TEXT_LOSS_H_
#define TOST_TRAINERS_TEXT_LOSS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "data/text_tokens.h"
#include "models/language_model.h"
#include "trainers/sequence_scores.h"

namespace tost::train {

// Losses by the number of tokens that the target is predicted from: 1, 2, 3–4, 5–8, 9–16, …
class LossByPosition {
 public:
  struct Bucket {
    int64_t first = 0, last = 0;  // positions, both included
    int64_t count = 0;
    double sum = 0;
    double Mean() const { return sum / static_cast<double>(count); }
  };

  void Add(int64_t position, double loss);
  // Those with targets; the last ends at the largest position added.
  std::vector<Bucket> Buckets() const;

 private:
  std::vector<Bucket> buckets_;
  int64_t largest_ = 0;
};

struct TextLoss {
  double sum = 0;      // nats, of all scored tokens
  int64_t tokens = 0;  // scored
  LossByPosition by_position;

  void Add(int64_t position, double loss);
  double Mean() const { return sum / static_cast<double>(tokens); }
};

// `stride` in 1 … context. Errors: those of the text; one of fewer than two tokens. Cancelled on a
// signal. Progress counts bytes.
absl::StatusOr<TextLoss> SlidingWindowLoss(const models::LanguageModel& model,
                                           data::TextTokens& text, int64_t stride,
                                           const ScoringOptions& options,
                                           EvaluationProgress& progress);

// ToST only (CHECKed). options.batch takes no part.
absl::StatusOr<TextLoss> StreamingLoss(const models::LanguageModel& model, data::TextTokens& text,
                                       const ScoringOptions& options, EvaluationProgress& progress);

// Window w begins at a place that depends on seed and w only. `tokens` has at least context + 1.
// Progress counts windows.
absl::StatusOr<TextLoss> RandomWindowLoss(const models::LanguageModel& model,
                                          std::span<const int32_t> tokens, int64_t windows,
                                          uint64_t seed, const ScoringOptions& options,
                                          EvaluationProgress& progress);

}  // namespace tost::train

#endif  // TOST_TRAINERS_TEXT_LOSS_H_
