#include "data/mixup.h"

#include "autograd/base/errors.h"

namespace tost::data {

void MixImages(float lambda, int64_t count, std::span<float> images) {
  TOST_CHECK(count > 0 && images.size() % static_cast<size_t>(count) == 0)
      << "MixImages: " << images.size() << " values are not " << count << " equal images";
  const size_t size = images.size() / static_cast<size_t>(count);
  for (size_t i = 0; 2 * (i + 1) <= static_cast<size_t>(count); ++i) {
    float* front = images.data() + i * size;
    float* back = images.data() + (static_cast<size_t>(count) - 1 - i) * size;
    for (size_t e = 0; e < size; ++e) {
      const float a = front[e], b = back[e];
      front[e] = lambda * a + (1 - lambda) * b;
      back[e] = lambda * b + (1 - lambda) * a;
    }
  }
}

std::vector<float> MixedTargets(float lambda, float smoothing, int64_t classes,
                                std::span<const int32_t> labels) {
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
    add(i, labels[labels.size() - 1 - i], 1 - lambda);
  }
  return targets;
}

}  // namespace tost::data
