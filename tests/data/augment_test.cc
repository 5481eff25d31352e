#include "data/augment.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "autograd/base/errors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_pictures.h"

namespace tost::data {
namespace {

using ::testing::HasSubstr;

constexpr int kDraws = 4000;
constexpr int kSize = 16;

RandomKey Key(int64_t row) { return {.seed = 11, .step = 2, .first_row = row}; }

// A 16 x 16 pipeline without any augmentation, on which tests switch on what they are about.
AugmentOptions Plain() { return {.size = kSize, .crop = CropKind::kNone, .flip_probability = 0}; }

std::vector<float> Augmented(const AugmentOptions& options, const Image& picture, int64_t row) {
  std::vector<float> out(static_cast<size_t>(options.size) * static_cast<size_t>(options.size) * 3);
  const Region r = RandomCropRegion(options, picture.width, picture.height, Key(row));
  const double x = r.x, y = r.y;
  Augment(options, picture, {x, y, x + r.width, y + r.height}, Key(row), out);
  return out;
}

std::vector<float> Normalized(const Image& image) {
  std::vector<float> out(image.pixels.size());
  Normalize(image, {}, out);
  return out;
}

double FourSigma(double probability) {
  return 4 * std::sqrt(kDraws * probability * (1 - probability));
}

TEST(RandomCropRegion, AreaAndAspectStayInTheirRangesAndFillThem) {
  constexpr int kWidth = 500, kHeight = 375;
  double least_area = 1, most_area = 0, least_aspect = 9, most_aspect = 0;
  int left = 0;
  for (int64_t row = 0; row < kDraws; ++row) {
    const Region region = RandomCropRegion({}, kWidth, kHeight, Key(row));
    ASSERT_TRUE(region.x >= 0 && region.y >= 0 && region.x + region.width <= kWidth &&
                region.y + region.height <= kHeight);
    const double area = static_cast<double>(region.width) * region.height / (kWidth * kHeight);
    const double aspect = static_cast<double>(region.width) / region.height;
    least_area = std::min(least_area, area), most_area = std::max(most_area, area);
    least_aspect = std::min(least_aspect, aspect), most_aspect = std::max(most_aspect, aspect);
    left += region.x < (kWidth - region.width) / 2.0;
  }
  // Half a pixel of about a hundred.
  EXPECT_NEAR(least_area, 0.08, 0.005);
  EXPECT_NEAR(most_area, 1, 0.02);
  EXPECT_NEAR(least_aspect, 3.0 / 4, 0.01);
  EXPECT_NEAR(most_aspect, 4.0 / 3, 0.01);
  EXPECT_NEAR(left, kDraws / 2, FourSigma(0.5) + kDraws / 100);
}

TEST(RandomCropRegion, ExtremePicturesGetTheirMiddle) {
  EXPECT_EQ(RandomCropRegion({}, 1, 1, Key(0)), (Region{0, 0, 1, 1}));
  // 3000 / (3/4) rows do not exist at width 100, nor would any try fit.
  EXPECT_EQ(RandomCropRegion({}, 100, 30000, Key(0)), (Region{0, 14933, 100, 133}));
  EXPECT_EQ(RandomCropRegion({}, 30000, 100, Key(0)), (Region{14933, 0, 133, 100}));
}

TEST(RandomCropRegion, OtherCropsTakeTheWholePicture) {
  for (CropKind crop : {CropKind::kPadded, CropKind::kNone}) {
    EXPECT_EQ(RandomCropRegion({.crop = crop}, 31, 17, Key(0)), (Region{0, 0, 31, 17}));
  }
}

TEST(Augment, WithoutAugmentationIsResizedAndNormalised) {
  const Image picture = NoisePicture(40, 30);
  EXPECT_EQ(Augmented(Plain(), picture, 0),
            Normalized(Resize(picture, kSize, kSize, Filter::kBicubic)));
}

TEST(Augment, CropsTheRegion) {
  AugmentOptions options = Plain();
  options.crop = CropKind::kRandomResized;
  const Image picture = NoisePicture(40, 30);
  const Region region = RandomCropRegion(options, 40, 30, Key(5));
  EXPECT_EQ(Augmented(options, picture, 5),
            Normalized(Resize(Crop(picture, region), kSize, kSize, Filter::kBicubic)));
}

TEST(Augment, FlipsAsOftenAsAsked) {
  AugmentOptions options = Plain();
  options.flip_probability = 0.25f;
  const Image picture = NoisePicture(kSize, kSize);
  const std::vector<float> plain = Normalized(picture);
  const std::vector<float> mirrored = Normalized(FlipHorizontally(picture));
  int flips = 0;
  for (int64_t row = 0; row < kDraws; ++row) {
    const std::vector<float> out = Augmented(options, picture, row);
    ASSERT_TRUE(out == plain || out == mirrored);
    flips += out == mirrored;
  }
  EXPECT_NEAR(flips, kDraws * 0.25, FourSigma(0.25));
}

TEST(Augment, PadsByFourAndReachesEveryOffset) {
  AugmentOptions options = Plain();
  options.crop = CropKind::kPadded;
  const Image picture = NoisePicture(kSize, kSize);
  std::vector<int> counts(81);
  for (int64_t row = 0; row < kDraws; ++row) {
    const std::vector<float> out = Augmented(options, picture, row);
    for (int offset = 0; offset < 81 && row < 200; ++offset) {
      counts[static_cast<size_t>(offset)] +=
          out == Normalized(PadAndCrop(picture, 4, offset % 9, offset / 9));
    }
  }
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0), 200);
  EXPECT_GT(std::ranges::count_if(counts, [](int n) { return n > 0; }), 60);
}

TEST(Augment, ErasesOneRectangleWithNoise) {
  AugmentOptions options = Plain();
  options.size = 32;
  options.erase_probability = 0.25f;
  const Image picture = NoisePicture(32, 32);
  const std::vector<float> plain = Normalized(picture);
  int erased = 0;
  double sum = 0, squares = 0, values = 0;
  for (int64_t row = 0; row < kDraws; ++row) {
    const std::vector<float> out = Augmented(options, picture, row);
    int left = 32, right = -1, top = 32, bottom = -1, changed = 0;
    for (int i = 0; i < 32 * 32; ++i) {
      const size_t at = static_cast<size_t>(i) * 3;
      if (std::equal(&out[at], &out[at] + 3, &plain[at])) continue;
      left = std::min(left, i % 32), right = std::max(right, i % 32);
      top = std::min(top, i / 32), bottom = std::max(bottom, i / 32);
      ++changed;
      for (size_t c = at; c < at + 3; ++c) sum += out[c], squares += out[c] * out[c], ++values;
    }
    if (changed == 0) continue;
    ++erased;
    const int width = right - left + 1, height = bottom - top + 1;
    ASSERT_EQ(changed, width * height);
    // Rounding moves each extent by up to half a pixel.
    ASSERT_GE((width + 0.5) * (height + 0.5), 0.02 * 32 * 32);
    ASSERT_LE((width - 0.5) * (height - 0.5), 32 * 32 / 3.0);
  }
  // A few rectangles, drawn ten times, are all too large.
  EXPECT_NEAR(erased, kDraws * 0.25, FourSigma(0.25));
  EXPECT_NEAR(sum / values, 0, 4 / std::sqrt(values));
  EXPECT_NEAR(squares / values, 1, 4 * std::sqrt(2 / values));
}

TEST(Augment, JitterScalesBrightnessContrastAndColour) {
  AugmentOptions options = Plain();
  options.color_jitter = 0.4f;
  // On a grey picture contrast and colour do nothing: what is left is brightness.
  Image grey(kSize, kSize);
  std::fill(grey.pixels.begin(), grey.pixels.end(), uint8_t{100});
  double least = 255, most = 0, sum = 0;
  for (int64_t row = 0; row < kDraws; ++row) {
    const std::vector<float> out = Augmented(options, grey, row);
    const double value = 255.0 * (out[0] * kImageNetDeviation[0] + kImageNetMean[0]);
    least = std::min(least, value), most = std::max(most, value), sum += value;
  }
  EXPECT_NEAR(least, 60, 1.1);
  EXPECT_NEAR(most, 140, 1.1);
  // Values are truncated, so their mean is half a step lower.
  EXPECT_NEAR(sum / kDraws, 99.5, 4 * 80 / std::sqrt(12.0 * kDraws));
}

// Everything on, but what a caller switches off.
AugmentOptions Everything() {
  return {.size = kSize,
          .rand_augment = TOST_CHECK_VALUE(ParseRandAugment("rand-m9-mstd0.5-inc1")),
          .color_jitter = 0.4f,
          .erase_probability = 1};
}

TEST(Augment, IsAFunctionOfTheKey) {
  const Image picture = NoisePicture(40, 30);
  EXPECT_EQ(Augmented(Everything(), picture, 3), Augmented(Everything(), picture, 3));
  EXPECT_NE(Augmented(Everything(), picture, 3), Augmented(Everything(), picture, 4));
}

// Where noise stands in the result.
std::vector<bool> Erased(const AugmentOptions& options, int64_t row) {
  AugmentOptions without = options;
  without.erase_probability = 0;
  const Image picture = NoisePicture(40, 30);
  const std::vector<float> a = Augmented(options, picture, row);
  const std::vector<float> b = Augmented(without, picture, row);
  std::vector<bool> erased(a.size());
  for (size_t i = 0; i < a.size(); ++i) erased[i] = a[i] != b[i];
  return erased;
}

TEST(Augment, SwitchingOneOffLeavesTheOthersDraws) {
  const auto off = [](auto change) {
    AugmentOptions options = Everything();
    change(options);
    return options;
  };
  const std::vector<AugmentOptions> others = {
      off([](AugmentOptions& o) { o.rand_augment.reset(); }),
      off([](AugmentOptions& o) { o.color_jitter = 0; }),
      off([](AugmentOptions& o) { o.flip_probability = 0; }),
      off([](AugmentOptions& o) { o.crop = CropKind::kNone; })};
  for (int64_t row = 0; row < 20; ++row) {
    for (const AugmentOptions& options : others) {
      EXPECT_EQ(Erased(options, row), Erased(Everything(), row));
    }
    EXPECT_EQ(RandomCropRegion(others[0], 40, 30, Key(row)),
              RandomCropRegion(Everything(), 40, 30, Key(row)));
  }
}

TEST(Augment, AnyPictureOfAnySize) {
  for (const auto& [width, height] : {std::pair{1, 1}, {1, 3000}, {3000, 1}, {7, 5}}) {
    for (int size : {1, 2, 32}) {
      AugmentOptions options = Everything();
      options.size = size;
      for (float value : Augmented(options, NoisePicture(width, height), 1)) {
        ASSERT_TRUE(std::isfinite(value));
      }
    }
  }
}

TEST(PrepareForEvaluation, TheThreeFits) {
  const Image picture = NoisePicture(50, 40);
  std::vector<float> out(kSize * kSize * 3);
  PrepareForEvaluation({.size = kSize}, picture, out);
  EXPECT_EQ(out, Normalized(ResizeShorterAndCrop(picture, 18, kSize, Filter::kBicubic)));
  PrepareForEvaluation({.size = kSize, .crop_fraction = 1.0}, picture, out);
  EXPECT_EQ(out, Normalized(ResizeShorterAndCrop(picture, kSize, kSize, Filter::kBicubic)));
  PrepareForEvaluation({.size = kSize, .crop_fraction = {}, .filter = Filter::kBilinear}, picture,
                       out);
  EXPECT_EQ(out, Normalized(Resize(picture, kSize, kSize, Filter::kBilinear)));
}

TEST(AugmentOptions, AreChecked) {
  const auto message = [](const absl::Status& status) { return std::string(status.message()); };
  EXPECT_TRUE(Everything().Validate().ok());
  EXPECT_TRUE(EvaluationTransform{}.Validate().ok());
  EXPECT_THAT(message(AugmentOptions{.size = 0}.Validate()), HasSubstr("size of a picture is 0"));
  EXPECT_THAT(message(AugmentOptions{.flip_probability = 1.5f}.Validate()),
              HasSubstr("probability of a flip is 1.5; it must be between 0 and 1"));
  EXPECT_THAT(message(AugmentOptions{.color_jitter = -1}.Validate()), HasSubstr("jitter is -1"));
  EXPECT_THAT(message(AugmentOptions{.erase_probability = NAN}.Validate()),
              HasSubstr("probability of erasing is nan"));
  EXPECT_THAT(message(AugmentOptions{.normalization = {.deviation = {1, 0, 1}}}.Validate()),
              HasSubstr("deviation is 0; it must be positive"));
  EXPECT_THAT(message(EvaluationTransform{.crop_fraction = 0.0}.Validate()),
              HasSubstr("crop fraction is 0"));
}

}  // namespace
}  // namespace tost::data
