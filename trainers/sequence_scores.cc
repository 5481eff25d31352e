#include "trainers/sequence_scores.h"

#include <algorithm>
#include <numeric>

#include "autograd/base/errors.h"

namespace tost::train {
namespace {

void AddSequence(const ScoredSequence& sequence, PaddedBatch& batch) {
  const std::span<const int32_t> all(sequence.tokens);
  TOST_CHECK(sequence.scored >= 1 && sequence.scored < static_cast<int64_t>(all.size()))
      << sequence.scored << " of " << all.size() << " tokens to be scored";
  std::vector<int32_t> targets(sequence.tokens.begin() + 1, sequence.tokens.end());
  std::fill(targets.begin(), targets.end() - sequence.scored, -1);
  batch.Add(all.first(all.size() - 1), targets);
}

}  // namespace

void PaddedBatch::Add(std::span<const int32_t> inputs, std::span<const int32_t> targets) {
  TOST_CHECK_EQ(inputs.size(), targets.size()) << "a target per input";
  inputs_.emplace_back(inputs.begin(), inputs.end());
  targets_.emplace_back(targets.begin(), targets.end());
}

models::TargetScores PaddedBatch::Scores(const models::LanguageModel& model,
                                         const ScoringOptions& options) const {
  size_t longest = 0;
  for (const std::vector<int32_t>& row : inputs_) longest = std::max(longest, row.size());
  auto padded = [&](const std::vector<std::vector<int32_t>>& from, int32_t filler) {
    std::vector<int32_t> ids;
    for (size_t row = 0; row < from.size(); ++row) {
      ids.insert(ids.end(), from[row].begin(), from[row].end());
      ids.resize((row + 1) * longest, filler);
    }
    return Tensor::FromHost({rows(), static_cast<int64_t>(longest)}, ids);
  };
  models::Pass pass{.compute_dtype = options.compute_dtype};
  return model.Scores(padded(inputs_, 0).To(model.device()), padded(targets_, -1),
                      options.candidates, pass);
}

absl::StatusOr<std::vector<SequenceScore>> ScoreSequences(const models::LanguageModel& model,
                                                          std::span<const ScoredSequence> sequences,
                                                          const ScoringOptions& options,
                                                          EvaluationProgress& progress) {
  std::vector<size_t> order(sequences.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return sequences[i].tokens.size(); });
  std::vector<SequenceScore> results(sequences.size());
  for (size_t begin = 0; begin < order.size(); begin += static_cast<size_t>(options.batch)) {
    const size_t end = std::min(order.size(), begin + static_cast<size_t>(options.batch));
    const std::span<const size_t> here = std::span(order).subspan(begin, end - begin);
    PaddedBatch batch;
    for (size_t i : here) AddSequence(sequences[i], batch);
    const models::TargetScores scores = batch.Scores(model, options);
    size_t next = 0;
    for (size_t i : here) {
      for (int64_t k = 0; k < sequences[i].scored; ++k, ++next) {
        results[i].loss += static_cast<double>(scores.losses[next]);
        if (options.candidates > 0 && !scores.most_likely[next]) results[i].most_likely = false;
      }
    }
    TOST_RETURN_IF_ERROR(progress.Advance(batch.rows()));
  }
  return results;
}

}  // namespace tost::train
