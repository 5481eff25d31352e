#include "data/augment.h"

#include <algorithm>
#include <cmath>
#include <ostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "autograd/base/errors.h"
#include "data/image_ops.h"
#include "data/random_draws.h"

namespace tost::data {
namespace {

constexpr int kTries = 10;
constexpr int kDrawsPerTry = 4;

// Where each purpose begins to draw: behind the last draw of the one before.
constexpr int64_t kCropBlock = 0;
constexpr int64_t kPadBlock = kCropBlock + kTries * kDrawsPerTry;
constexpr int64_t kFlipBlock = kPadBlock + 2;
constexpr int64_t kJitterBlock = kFlipBlock + 1;
constexpr int64_t kEraseBlock = kJitterBlock + 5;
constexpr int64_t kRandAugmentBlock = kEraseBlock + 1 + kTries * kDrawsPerTry;
constexpr int64_t kNoiseBlock = kRandAugmentBlock + kMostRandAugmentBlocks;

constexpr int kPadding = 4;

// A random rectangle by area and aspect; nothing where it is larger than `width` x `height`.
struct RectangleRange {
  double least_area, most_area;      // as a part of the whole
  double least_aspect, most_aspect;  // width / height
};

std::optional<Region> TryRectangle(const RectangleRange& range, int width, int height,
                                   RandomDraws& draws) {
  const double area = draws.Uniform(range.least_area, range.most_area) * width * height;
  const double aspect =
      std::exp(draws.Uniform(std::log(range.least_aspect), std::log(range.most_aspect)));
  const double w = std::nearbyint(std::sqrt(area * aspect));
  const double h = std::nearbyint(std::sqrt(area / aspect));
  if (!(w >= 1 && w <= width && h >= 1 && h <= height)) return std::nullopt;
  const Region sized{0, 0, static_cast<int>(w), static_cast<int>(h)};
  const int x = static_cast<int>(draws.Below(int64_t{width} - sized.width + 1));
  const int y = static_cast<int>(draws.Below(int64_t{height} - sized.height + 1));
  return Region{x, y, sized.width, sized.height};
}

// The largest middle part with an aspect in the range.
Region MiddlePart(const RectangleRange& range, int width, int height) {
  const double aspect = static_cast<double>(width) / height;
  int w = width, h = height;
  if (aspect < range.least_aspect) h = static_cast<int>(std::nearbyint(w / range.least_aspect));
  if (aspect > range.most_aspect) w = static_cast<int>(std::nearbyint(h * range.most_aspect));
  return {(width - w) / 2, (height - h) / 2, w, h};
}

Image Jittered(float jitter, const RandomKey& key, Image image) {
  RandomDraws draws(key, kJitterBlock);
  using Adjust = Image (*)(Image, double);
  struct Step {
    Adjust adjust;
    double factor;
  };
  std::array<Step, 3> steps = {{{AdjustBrightness, 0}, {AdjustContrast, 0}, {AdjustColor, 0}}};
  for (Step& step : steps) step.factor = draws.Uniform(std::max(0.0f, 1 - jitter), 1 + jitter);
  for (size_t i = steps.size() - 1; i > 0; --i) {
    std::swap(steps[i], steps[static_cast<size_t>(draws.Below(static_cast<int64_t>(i) + 1))]);
  }
  for (const Step& step : steps) image = step.adjust(std::move(image), step.factor);
  return image;
}

// timm gives its RandAugment the crop's filter and the mean colour; torchvision's has neither.
Geometry GeometryFor(const AugmentOptions& options) {
  if (options.rand_augment->convention == RandAugment::Convention::kTorchvision) return {};
  Geometry geometry{options.filter == Filter::kBicubic ? Filter::kBicubic : Filter::kBilinear};
  for (size_t c = 0; c < 3; ++c) {
    const float value = std::nearbyint(255 * options.normalization.mean[c]);
    geometry.fill[c] = static_cast<uint8_t>(std::clamp(value, 0.0f, 255.0f));
  }
  return geometry;
}

void Erase(float probability, int size, const RandomKey& key, std::span<float> out) {
  constexpr RectangleRange kRange{0.02, 1.0 / 3, 0.3, 1 / 0.3};
  RandomDraws draws(key, kEraseBlock);
  if (!draws.Chance(probability)) return;
  std::optional<Region> region;
  for (int i = 0; i < kTries && !region; ++i) {
    region = TryRectangle(kRange, size, size, draws);
    // A rectangle as wide or as high as the picture counts as too large.
    if (region && (region->width == size || region->height == size)) region.reset();
  }
  if (!region) return;
  RandomDraws noise(key, kNoiseBlock);
  const int values = region->width * 3;
  for (int y = region->y; y < region->y + region->height; ++y) {
    float* row =
        &out[(static_cast<size_t>(y) * static_cast<size_t>(size) + static_cast<size_t>(region->x)) *
             3];
    for (int i = 0; i < values; i += 2) {
      const auto [a, b] = noise.NormalPair();
      row[i] = static_cast<float>(a);
      if (i + 1 < values) row[i + 1] = static_cast<float>(b);
    }
  }
}

Image Cropped(const AugmentOptions& options, const Image& picture, const Box& box,
              const RandomKey& key) {
  Image image = CropAndResize(picture, box, options.size, options.size, options.filter);
  if (options.crop != CropKind::kPadded) return image;
  RandomDraws draws(key, kPadBlock);
  const int x = static_cast<int>(draws.Below(2 * kPadding + 1));
  const int y = static_cast<int>(draws.Below(2 * kPadding + 1));
  return PadAndCrop(image, kPadding, x, y);
}

absl::Status Invalid(const char* name, double value, const char* rule) {
  return absl::InvalidArgumentError(absl::StrCat(name, " is ", value, "; it must be ", rule));
}

absl::Status CheckSize(int size) {
  if (size >= 1 && size <= 16384) return absl::OkStatus();
  return Invalid("the size of a picture", size, "between 1 and 16384 pixels");
}

absl::Status CheckNormalization(const Normalization& normalization) {
  for (size_t c = 0; c < 3; ++c) {
    const float mean = normalization.mean[c], deviation = normalization.deviation[c];
    if (!std::isfinite(mean)) return Invalid("a channel's mean", mean, "a number");
    if (!(deviation > 0) || !std::isfinite(deviation)) {
      return Invalid("a channel's deviation", deviation, "positive");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status AugmentOptions::Validate() const {
  TOST_RETURN_IF_ERROR(CheckSize(size));
  if (!(flip_probability >= 0 && flip_probability <= 1)) {
    return Invalid("the probability of a flip", flip_probability, "between 0 and 1");
  }
  if (!(color_jitter >= 0) || !std::isfinite(color_jitter)) {
    return Invalid("colour jitter", color_jitter, "0 or positive");
  }
  if (!(erase_probability >= 0 && erase_probability <= 1)) {
    return Invalid("the probability of erasing", erase_probability, "between 0 and 1");
  }
  return CheckNormalization(normalization);
}

absl::Status EvaluationTransform::Validate() const {
  TOST_RETURN_IF_ERROR(CheckSize(size));
  if (crop_fraction && !(*crop_fraction >= 0.1 && *crop_fraction <= 1)) {
    return Invalid("the crop fraction", *crop_fraction, "between 0.1 and 1");
  }
  return CheckNormalization(normalization);
}

void Normalize(const Image& image, const Normalization& normalization, std::span<float> out) {
  TOST_CHECK_EQ(out.size(), image.pixels.size()) << "Normalize: one float for each byte";
  // Sixteen pixels at a time, so that each position of a vector has one channel.
  constexpr size_t kPeriod = 48;
  float mean[kPeriod], deviation[kPeriod];
  for (size_t i = 0; i < kPeriod; ++i) {
    mean[i] = normalization.mean[i % 3];
    deviation[i] = normalization.deviation[i % 3];
  }
  const size_t whole = out.size() / kPeriod * kPeriod;
  const uint8_t* in = image.pixels.data();
  for (size_t begin = 0; begin < whole; begin += kPeriod) {
#pragma omp simd
    for (size_t i = 0; i < kPeriod; ++i) {
      out[begin + i] = (static_cast<float>(in[begin + i]) / 255.0f - mean[i]) / deviation[i];
    }
  }
  for (size_t i = whole; i < out.size(); ++i) {
    out[i] = (static_cast<float>(in[i]) / 255.0f - mean[i % 3]) / deviation[i % 3];
  }
}

Region RandomCropRegion(const AugmentOptions& options, int width, int height,
                        const RandomKey& key) {
  TOST_CHECK(width > 0 && height > 0) << "a crop of a picture of " << width << "x" << height;
  if (options.crop != CropKind::kRandomResized) return {0, 0, width, height};
  constexpr RectangleRange kRange{0.08, 1, 3.0 / 4, 4.0 / 3};
  RandomDraws draws(key, kCropBlock);
  for (int i = 0; i < kTries; ++i) {
    if (const std::optional<Region> region = TryRectangle(kRange, width, height, draws)) {
      return *region;
    }
  }
  return MiddlePart(kRange, width, height);
}

void Augment(const AugmentOptions& options, const Image& picture, const Box& box,
             const RandomKey& key, std::span<float> out) {
  Image image = Cropped(options, picture, box, key);
  if (RandomDraws(key, kFlipBlock).Chance(options.flip_probability)) {
    image = FlipHorizontally(std::move(image));
  }
  if (options.rand_augment) {
    image = ApplyRandAugment(*options.rand_augment, GeometryFor(options), key, kRandAugmentBlock,
                             std::move(image));
  }
  if (options.color_jitter > 0) image = Jittered(options.color_jitter, key, std::move(image));
  Normalize(image, options.normalization, out);
  Erase(options.erase_probability, options.size, key, out);
}

void PrepareForEvaluation(const EvaluationTransform& transform, const Image& picture,
                          std::span<float> out) {
  const int size = transform.size;
  if (!transform.crop_fraction) {
    Normalize(Resize(picture, size, size, transform.filter), transform.normalization, out);
    return;
  }
  const int shorter = static_cast<int>(size / *transform.crop_fraction);
  Normalize(ResizeShorterAndCrop(picture, shorter, size, transform.filter), transform.normalization,
            out);
}

}  // namespace tost::data
