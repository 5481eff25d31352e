// What a language model says of given next tokens, target by target.
#ifndef TOST_MODELS_TARGET_SCORES_H_
#define TOST_MODELS_TARGET_SCORES_H_

#include <cstdint>
#include <vector>

#include "autograd/tensor.h"

namespace tost::models {

// One entry for every target ≠ −1, in row-major order.
struct TargetScores {
  std::vector<float> losses;  // −log softmax(logits)[target], over all ids
  // Whether the target is the most likely of the ids below the number of candidates; the smallest
  // of equally likely ids counts as the most likely. Empty where nobody asks: 0 candidates.
  std::vector<bool> most_likely;
};

// The scores of targets int32 [...] under logits = x wᵀ, x [..., C], w [V, C]. Ids from
// `candidates` (0 … V) on are padding: they take part in the softmax, as they do in training, and
// are never the most likely. 0 asks for losses alone, which is faster. Only rows with a target are
// projected, a chunk of them at a time, in float32 for bfloat16 operands too. Records no gradient.
TargetScores ScoreTargets(const Tensor& x, const Tensor& w, const Tensor& targets,
                          int64_t candidates);

}  // namespace tost::models

#endif  // TOST_MODELS_TARGET_SCORES_H_
