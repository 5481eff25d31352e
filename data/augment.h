// What happens to a picture between its file and the model: in training crop, flip, RandAugment,
// colour jitter, normalisation and random erasing; in evaluation one fixed crop.
//
// Every choice is a pure function of a key whose `first_row` is the picture's row in the global
// batch. Each augmentation has draws of its own: switching one off leaves the others as they were.
// All functions may run on several threads.
#ifndef TOST_DATA_AUGMENT_H_
#define TOST_DATA_AUGMENT_H_

#include <array>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "autograd/base/philox.h"
#include "data/image.h"
#include "data/image_resize.h"
#include "data/random_augment.h"

namespace tost::data {

// Of red, green and blue in [0, 1], over the training pictures of ImageNet.
inline constexpr std::array<float, 3> kImageNetMean = {0.485f, 0.456f, 0.406f};
inline constexpr std::array<float, 3> kImageNetDeviation = {0.229f, 0.224f, 0.225f};

struct Normalization {
  std::array<float, 3> mean = kImageNetMean;
  std::array<float, 3> deviation = kImageNetDeviation;
};

// out[i] = (pixels[i] / 255 - mean) / deviation, each step in float32: [height, width, 3].
void Normalize(const Image& image, const Normalization& normalization, std::span<float> out);

enum class CropKind {
  // torchvision's RandomResizedCrop: 0.08 … 1 of the area, aspect 3/4 … 4/3 (logarithm uniform),
  // resized to size × size. After ten tries that do not fit, the largest middle part whose aspect
  // does.
  kRandomResized,
  // Official for at most 32 pixels: resized to size × size unless it is that, then cropped at
  // random
  // with a black border of 4 pixels.
  kPadded,
  // Resized to size × size.
  kNone,
};

struct AugmentOptions {
  int size = 224;  // extent of the result
  CropKind crop = CropKind::kRandomResized;
  Filter filter = Filter::kBicubic;
  float flip_probability = 0.5f;  // left becomes right
  std::optional<RandAugment> rand_augment;
  // Brightness, contrast and colour, in random order, by factors from 1 - jitter, at least 0, to
  // 1 + jitter. (timm's recipes leave it out where RandAugment is on.)
  float color_jitter = 0;
  // Of one rectangle of standard normal numbers in the normalised picture: 0.02 … 1/3 of the area,
  // aspect 0.3 … 1/0.3 (logarithm uniform).
  float erase_probability = 0;
  Normalization normalization;

  absl::Status Validate() const;
};

// The part of a picture of these extents that Augment will want under this key.
Region RandomCropRegion(const AugmentOptions& options, int width, int height, const RandomKey& key);

// Augments what lies in `box` of the picture: the region above, as far as it was decoded, perhaps
// at another scale. out: [size, size, 3], normalised.
void Augment(const AugmentOptions& options, const Image& picture, const Box& box,
             const RandomKey& key, std::span<float> out);

struct EvaluationTransform {
  int size = 224;
  // The shorter side is resized to floor(size / crop_fraction), and the middle size × size pixels
  // remain; 224/256 is usual, 1 keeps the most. Nothing: the whole picture is resized to
  // size × size whatever its aspect, as the official fine-tuning tests.
  std::optional<double> crop_fraction = 0.875;
  Filter filter = Filter::kBicubic;
  Normalization normalization;

  absl::Status Validate() const;
};

// out: [size, size, 3], normalised.
void PrepareForEvaluation(const EvaluationTransform& transform, const Image& picture,
                          std::span<float> out);

}  // namespace tost::data

#endif  // TOST_DATA_AUGMENT_H_
