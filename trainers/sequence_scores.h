// Many short token sequences scored in batches: the ground of the zero-shot tests.
#ifndef TOST_TRAINERS_SEQUENCE_SCORES_H_
#define TOST_TRAINERS_SEQUENCE_SCORES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "models/language_model.h"
#include "trainers/progress.h"

namespace tost::train {

// How a model is asked.
struct ScoringOptions {
  int64_t batch = 32;  // sequences at a time
  DType compute_dtype = DType::kFloat32;
  int64_t candidates = 0;  // ids below it can be the most likely; 0: losses alone are asked for
};

// Tokens of which the last `scored` are predicted, each from all before it:
// 1 ≤ scored < tokens.size() ≤ context + 1.
struct ScoredSequence {
  std::vector<int32_t> tokens;
  int64_t scored = 0;
};

struct SequenceScore {
  double loss = 0;          // Σ −log p over the scored tokens
  bool most_likely = true;  // every scored token is the most likely one where it stands, if asked
};

// One score per sequence, in their order. Sequences of like length share a batch, padded on the
// right, where no causal model looks. Cancelled on a signal.
absl::StatusOr<std::vector<SequenceScore>> ScoreSequences(const models::LanguageModel& model,
                                                          std::span<const ScoredSequence> sequences,
                                                          const ScoringOptions& options,
                                                          EvaluationProgress& progress);

// Inputs and targets of equal length, row by row, as a batch of the length of the longest: token 0
// and target −1 fill the shorter rows.
class PaddedBatch {
 public:
  // `targets` has as many elements as `inputs`.
  void Add(std::span<const int32_t> inputs, std::span<const int32_t> targets);
  int64_t rows() const { return static_cast<int64_t>(inputs_.size()); }
  models::TargetScores Scores(const models::LanguageModel& model,
                              const ScoringOptions& options) const;

 private:
  std::vector<std::vector<int32_t>> inputs_, targets_;
};

}  // namespace tost::train

#endif  // TOST_TRAINERS_SEQUENCE_SCORES_H_
