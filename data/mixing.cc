#include "data/mixing.h"

#include <algorithm>
#include <cmath>
#include <ostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "autograd/base/errors.h"
#include "data/random_draws.h"

namespace tost::data {
namespace {

// Logarithm of a draw from Gamma(α, 1): Marsaglia and Tsang (2000) for α + 1, brought to α by a
// factor U^(1/α). As a logarithm it does not vanish where α is small.
double LogGamma(double alpha, RandomDraws& draws) {
  const double d = alpha + 1 - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  double log_v = 0;
  for (bool accepted = false; !accepted;) {
    const double normal = draws.NormalPair().first;
    const double root = 1 + c * normal;
    if (root <= 0) continue;
    log_v = 3 * std::log(root);
    accepted =
        std::log(1 - draws.Uniform()) < normal * normal / 2 + d - d * std::exp(log_v) + d * log_v;
  }
  return std::log(d) + log_v + std::log(1 - draws.Uniform()) / alpha;
}

// Beta(α, α) is the share of one of two Gammas.
double Beta(double alpha, RandomDraws& draws) {
  const double a = LogGamma(alpha, draws), b = LogGamma(alpha, draws);
  return 1 / (1 + std::exp(b - a));
}

// Mixes the two rows of a pair with each other.
using MixPair = void (*)(const Mixing&, int64_t height, int64_t width, float* a, float* b);

void Blend(const Mixing& mixing, int64_t height, int64_t width, float* a, float* b) {
  const float own = mixing.lambda, other = 1 - mixing.lambda;
#pragma omp simd
  for (int64_t e = 0; e < height * width * 3; ++e) {
    const float x = a[e], y = b[e];
    a[e] = own * x + other * y;
    b[e] = own * y + other * x;
  }
}

void SwapBox(const Mixing& mixing, int64_t, int64_t width, float* a, float* b) {
  const Region& box = mixing.box;
  for (int y = box.y; y < box.y + box.height; ++y) {
    const int64_t begin = (y * width + box.x) * 3;
    std::swap_ranges(a + begin, a + begin + int64_t{box.width} * 3, b + begin);
  }
}

absl::Status CheckShare(const char* name, float value, bool probability) {
  if (value >= 0 && std::isfinite(value) && (!probability || value <= 1)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is ", value, "; it must be ",
                   probability ? "between 0 and 1" : "0 (off) or positive"));
}

}  // namespace

absl::Status MixingOptions::Validate() const {
  TOST_RETURN_IF_ERROR(CheckShare("mixup's alpha", mixup_alpha, false));
  TOST_RETURN_IF_ERROR(CheckShare("CutMix's alpha", cutmix_alpha, false));
  TOST_RETURN_IF_ERROR(CheckShare("the probability of mixing", probability, true));
  return CheckShare("the probability of CutMix instead of mixup", switch_probability, true);
}

Mixing CutmixBox(double lambda, int center_x, int center_y, int width, int height) {
  const double share = std::sqrt(1 - lambda);
  const int half_width = static_cast<int>(width * share) / 2;
  const int half_height = static_cast<int>(height * share) / 2;
  const int x0 = std::max(0, center_x - half_width), x1 = std::min(width, center_x + half_width);
  const int y0 = std::max(0, center_y - half_height), y1 = std::min(height, center_y + half_height);
  const double area = static_cast<double>(x1 - x0) * (y1 - y0);
  return {.kind = Mixing::Kind::kCutmix,
          .lambda = static_cast<float>(1 - area / (static_cast<double>(width) * height)),
          .box = {x0, y0, x1 - x0, y1 - y0}};
}

Mixing DrawMixing(const MixingOptions& options, const RandomKey& key, int height, int width) {
  TOST_CHECK_OK(options.Validate());
  TOST_CHECK(height > 0 && width > 0) << "DrawMixing for pictures of " << width << "x" << height;
  RandomDraws draws(key, 0);
  const bool mixed = draws.Chance(options.probability);
  const bool switched = draws.Chance(options.switch_probability);
  const int center_x = static_cast<int>(draws.Below(width));
  const int center_y = static_cast<int>(draws.Below(height));
  if (!mixed || (options.mixup_alpha == 0 && options.cutmix_alpha == 0)) return {};
  const bool cutmix = options.mixup_alpha == 0 || (options.cutmix_alpha > 0 && switched);
  if (cutmix) {
    return CutmixBox(Beta(options.cutmix_alpha, draws), center_x, center_y, width, height);
  }
  return {.kind = Mixing::Kind::kMixup,
          .lambda = static_cast<float>(Beta(options.mixup_alpha, draws))};
}

void MixImages(const Mixing& mixing, std::span<const int64_t> partners, int64_t height,
               int64_t width, std::span<float> images) {
  const int64_t count = static_cast<int64_t>(partners.size()), size = height * width * 3;
  TOST_CHECK(count > 0 && static_cast<int64_t>(images.size()) == count * size)
      << "MixImages: " << images.size() << " values are not " << count << " images of " << width
      << "x" << height;
  if (mixing.kind == Mixing::Kind::kNone) return;
  const MixPair mix = mixing.kind == Mixing::Kind::kMixup ? Blend : SwapBox;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t partner = partners[static_cast<size_t>(i)];
    TOST_CHECK(partner >= 0 && partner < count && partners[static_cast<size_t>(partner)] == i)
        << "MixImages: row " << i << " has partner " << partner << ", which has another";
    if (i < partner) {
      mix(mixing, height, width, images.data() + i * size, images.data() + partner * size);
    }
  }
}

std::vector<float> MixedTargets(float lambda, float smoothing, int64_t classes,
                                std::span<const int32_t> labels,
                                std::span<const int32_t> partner_labels) {
  TOST_CHECK_EQ(labels.size(), partner_labels.size()) << "MixedTargets needs a partner for each";
  std::vector<float> targets(labels.size() * static_cast<size_t>(classes),
                             smoothing / static_cast<float>(classes));
  auto add = [&](size_t row, int32_t label, float share) {
    TOST_CHECK(label >= 0 && label < classes)
        << "MixedTargets: label " << label << " among " << classes << " classes";
    targets[row * static_cast<size_t>(classes) + static_cast<size_t>(label)] +=
        share * (1 - smoothing);
  };
  for (size_t i = 0; i < labels.size(); ++i) {
    add(i, labels[i], lambda);
    add(i, partner_labels[i], 1 - lambda);
  }
  return targets;
}

}  // namespace tost::data
