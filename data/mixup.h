// Mixup (Zhang et al., 2018) as timm's Mixup applies it to a whole batch: every image is blended
// with the one at the mirrored place of the batch, and so are their targets.
#ifndef TOST_DATA_MIXUP_H_
#define TOST_DATA_MIXUP_H_

#include <cstdint>
#include <span>
#include <vector>

namespace tost::data {

// image[i] ← λ image[i] + (1 − λ) image[count − 1 − i], in place. `images` holds `count` images of
// equal size; a batch of one, and the middle of an odd batch, blend with themselves.
void MixImages(float lambda, int64_t count, std::span<float> images);

// Target probabilities [labels, classes], row-major, for SoftCrossEntropy:
//   row i = λ s(label[i]) + (1 − λ) s(label[count − 1 − i])
//   s(k)[j] = ε/classes, plus 1 − ε where j = k,    ε = smoothing
// λ = 1 gives smoothed targets without mixing. CHECKs that labels are in [0, classes).
std::vector<float> MixedTargets(float lambda, float smoothing, int64_t classes,
                                std::span<const int32_t> labels);

}  // namespace tost::data

#endif  // TOST_DATA_MIXUP_H_
