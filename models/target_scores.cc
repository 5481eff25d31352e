#include "models/target_scores.h"

#include <algorithm>
#include <span>

#include "autograd/tape.h"
#include "ops/layout.h"
#include "ops/linear.h"
#include "ops/reduce.h"

namespace tost::models {
namespace {

// Logits of so many rows exist at once: 26 MB of them at GPT-2's vocabulary.
constexpr size_t kChunkRows = 128;

Tensor Indices(Shape shape, std::span<const int32_t> values, Device device) {
  return Tensor::FromHost<int32_t>(std::move(shape), values, device);
}

// Whether no id before `target` has its logit, which is the largest of the row.
bool IsFirst(const Tensor& logits, int64_t row, int32_t target) {
  const std::vector<float> values = logits.Slice(row, 1).ToHost();
  const auto end = values.begin() + target;
  return std::find(values.begin(), end, *end) == end;
}

void ScoreChunk(const Tensor& logits, std::span<const int32_t> targets, int64_t candidates,
                TargetScores& scores) {
  const int64_t rows = logits.shape()[0];
  const std::vector<float> log_sums = ops::LogSumExp(logits, {-1}).ToHost();
  const Tensor known =
      candidates < logits.shape()[1] ? ops::Slice(logits, 1, 0, candidates) : logits;
  const std::vector<float> largest = ops::Max(known, {-1}).ToHost();
  const std::vector<float> chosen =
      ops::Gather(logits, 1, Indices({rows, 1}, targets, logits.device())).ToHost();
  for (size_t i = 0; i < targets.size(); ++i) {
    scores.losses.push_back(log_sums[i] - chosen[i]);
    scores.most_likely.push_back(targets[i] < candidates && chosen[i] == largest[i] &&
                                 IsFirst(logits, static_cast<int64_t>(i), targets[i]));
  }
}

}  // namespace

TargetScores ScoreTargets(const Tensor& x, const Tensor& w, const Tensor& targets,
                          int64_t candidates) {
  TOST_CHECK(Tape::Current() == nullptr) << "scores have no gradient";
  const int64_t vocabulary = w.shape()[0], width = w.shape()[1];
  TOST_CHECK(candidates >= 1 && candidates <= vocabulary)
      << candidates << " candidates of a vocabulary of " << vocabulary;
  TOST_CHECK_EQ(targets.numel() * width, x.numel()) << "targets are not one per row of x";
  std::vector<int32_t> rows, ids;
  const std::vector<int32_t> all = targets.ToHost<int32_t>();
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i] == -1) continue;
    TOST_CHECK(all[i] >= 0 && all[i] < vocabulary) << "target " << all[i] << " of " << vocabulary;
    rows.push_back(static_cast<int32_t>(i));
    ids.push_back(all[i]);
  }
  const Tensor features = x.Reshaped({targets.numel(), width});
  TargetScores scores;
  for (size_t begin = 0; begin < rows.size(); begin += kChunkRows) {
    const size_t count = std::min(kChunkRows, rows.size() - begin);
    const auto extent = static_cast<int64_t>(count);
    const std::span<const int32_t> chunk = std::span(rows).subspan(begin, count);
    const Tensor selected = ops::IndexSelect(features, 0, Indices({extent}, chunk, x.device()));
    // The kernel and not ops::Linear, whose result would be rounded to bfloat16 with its operands.
    Tensor logits = Tensor::Empty({extent, vocabulary}, AccumulateDType(x.dtype()), x.device());
    ops::gemm_kernel.On(x.device().type)({.transpose_b = true}, selected, w, logits);
    ScoreChunk(logits, std::span(ids).subspan(begin, count), candidates, scores);
  }
  return scores;
}

}  // namespace tost::models
