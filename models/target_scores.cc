#include "models/target_scores.h"

#include <algorithm>
#include <limits>
#include <span>

#include "autograd/tape.h"
#include "ops/layout.h"
#include "ops/linear.h"
#include "ops/loss.h"
#include "ops/reduce.h"

namespace tost::models {
namespace {

// Logits of so many rows exist at once: 26 MB of them at GPT-2's vocabulary.
constexpr size_t kChunkRows = 128;

Tensor Indices(Shape shape, std::span<const int32_t> values, Device device) {
  return Tensor::FromHost<int32_t>(std::move(shape), values, device);
}

// Whether the target is the first of the largest among the logits of ids below `candidates`.
bool IsMostLikely(const Tensor& logits, int64_t row, int32_t target, int64_t candidates) {
  const std::vector<float> values = logits.Slice(row, 1).ToHost();
  return std::max_element(values.begin(), values.begin() + candidates) - values.begin() == target;
}

void ScoreChunk(const Tensor& logits, std::span<const int32_t> targets, int64_t candidates,
                TargetScores& scores) {
  const int64_t rows = logits.shape()[0], vocabulary = logits.shape()[1];
  const std::vector<float> log_sums = ops::LogSumExp(logits, {-1}).ToHost();
  const std::vector<float> largest = ops::Max(logits, {-1}).ToHost();
  // Where padding holds the largest logit, that of the other ids is still to be found.
  const std::vector<float> padding =
      candidates == vocabulary
          ? std::vector<float>(targets.size(), -std::numeric_limits<float>::infinity())
          : ops::Max(ops::Slice(logits, 1, candidates, vocabulary), {-1}).ToHost();
  const std::vector<float> chosen =
      ops::Gather(logits, 1, Indices({rows, 1}, targets, logits.device())).ToHost();
  for (size_t i = 0; i < targets.size(); ++i) {
    scores.losses.push_back(log_sums[i] - chosen[i]);
    const bool possible = chosen[i] == largest[i] || padding[i] == largest[i];
    scores.most_likely.push_back(
        possible && IsMostLikely(logits, static_cast<int64_t>(i), targets[i], candidates));
  }
}

// Losses alone, which need no logits at hand.
std::vector<float> LossesOf(const Tensor& x, const Tensor& w, std::span<const int32_t> targets) {
  const auto rows = static_cast<int64_t>(targets.size());
  Tensor losses = Tensor::Empty({rows}, AccumulateDType(x.dtype()), x.device());
  Tensor no_gradient;
  ops::projected_cross_entropy_kernel.On(x.device().type)(
      x, w, Indices({rows}, targets, x.device()), losses, no_gradient, no_gradient);
  return losses.ToHost();
}

}  // namespace

TargetScores ScoreTargets(const Tensor& x, const Tensor& w, const Tensor& targets,
                          int64_t candidates) {
  TOST_CHECK(Tape::Current() == nullptr) << "scores have no gradient";
  const int64_t vocabulary = w.shape()[0], width = w.shape()[1];
  TOST_CHECK(candidates >= 0 && candidates <= vocabulary)
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
  if (candidates == 0 && !rows.empty()) {
    const auto count = static_cast<int64_t>(rows.size());
    scores.losses =
        LossesOf(ops::IndexSelect(features, 0, Indices({count}, rows, x.device())), w, ids);
    return scores;
  }
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
