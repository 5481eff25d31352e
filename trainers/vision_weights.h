// The weights that a vision run starts from when it starts from those of another.
#ifndef TOST_TRAINERS_VISION_WEIGHTS_H_
#define TOST_TRAINERS_VISION_WEIGHTS_H_

#include <span>
#include <vector>

#include "absl/status/status.h"
#include "autograd/parameter.h"
#include "trainers/checkpoint.h"

namespace tost::train {

// Sets all parameters but, with `reset_head`, the last linear layer, which keeps its initial
// values. CRATE's learned positions are resampled when the picture size differs. Errors as
// Checkpoint::LoadWeights.
absl::Status LoadStartingWeights(const Checkpoint& checkpoint, bool reset_head,
                                 ParameterSet& params);

// Learned positions [1, 1 + n², C], of a class token and n × n patches, for m × m patches: the
// class token's stay, those of the patches are interpolated linearly between their centres, the
// border's holding beyond it. Returns [1, 1 + m², C].
std::vector<float> ResampledPositions(std::span<const float> positions, int64_t old_side,
                                      int64_t new_side, int64_t width);

}  // namespace tost::train

#endif  // TOST_TRAINERS_VISION_WEIGHTS_H_
