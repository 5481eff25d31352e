// Mixup (Zhang et al., 2018) and CutMix (Yun et al., 2019) of a batch, as timm's Mixup applies
// them: one draw for all rows, each of which is mixed with its partner.
#ifndef TOST_DATA_MIXING_H_
#define TOST_DATA_MIXING_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "autograd/base/philox.h"
#include "data/image.h"

namespace tost::data {

struct MixingOptions {
  float mixup_alpha = 0;            // of λ ~ Beta(α, α); 0: no mixup
  float cutmix_alpha = 0;           // 0: no CutMix
  float probability = 1;            // of mixing at all
  float switch_probability = 0.5f;  // of CutMix where both are on

  absl::Status Validate() const;
};

struct Mixing {
  enum class Kind { kNone, kMixup, kCutmix };
  Kind kind = Kind::kNone;
  float lambda = 1;  // share of the row itself; for CutMix that of the pixels it keeps
  Region box{};      // CutMix: what comes from the partner
};

// The box of a given λ and centre: extents trunc(extent · sqrt(1 - λ)), from centre - extent/2 to
// centre + extent/2 in integer division, clipped to the picture. `lambda` becomes
// 1 - area / (width · height).
Mixing CutmixBox(double lambda, int center_x, int center_y, int width, int height);

// Draws from row 0 of the key. CHECKs that the options are valid.
Mixing DrawMixing(const MixingOptions& options, const RandomKey& key, int height, int width);

// Row i ← λ row i + (1 − λ) row partners[i], or its pixels in the box ← those of the partner; in
// place. images: [n, height, width, 3] for n = partners.size() >= 1. `partners` is an involution:
// partners[partners[i]] == i; a row that is its own partner stays as it is.
void MixImages(const Mixing& mixing, std::span<const int64_t> partners, int64_t height,
               int64_t width, std::span<float> images);

// Target probabilities [labels, classes], row-major, for SoftCrossEntropy:
//   row i = λ s(label[i]) + (1 − λ) s(partner_label[i])
//   s(k)[j] = ε/classes, plus 1 − ε where j = k,    ε = smoothing
// λ = 1 gives smoothed targets without mixing. CHECKs that labels are in [0, classes).
std::vector<float> MixedTargets(float lambda, float smoothing, int64_t classes,
                                std::span<const int32_t> labels,
                                std::span<const int32_t> partner_labels);

}  // namespace tost::data

#endif  // TOST_DATA_MIXING_H_
