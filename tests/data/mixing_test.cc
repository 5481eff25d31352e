#include "data/mixing.h"

#include <algorithm>
#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tost::data {
namespace {

using ::testing::HasSubstr;

constexpr int kDraws = 4000;

Mixing Mixup(float lambda) { return {Mixing::Kind::kMixup, lambda}; }

std::vector<Mixing> Draw(const MixingOptions& options, int height = 32, int width = 48) {
  std::vector<Mixing> drawn;
  for (uint32_t step = 0; step < kDraws; ++step) {
    drawn.push_back(DrawMixing(options, {.seed = 7, .step = step}, height, width));
  }
  return drawn;
}

int Count(const std::vector<Mixing>& drawn, Mixing::Kind kind) {
  return static_cast<int>(std::ranges::count(drawn, kind, &Mixing::kind));
}

// Four standard deviations of the mean of kDraws draws that have deviation `deviation`.
double FourSigma(double deviation) { return 4 * deviation / std::sqrt(kDraws); }

TEST(DrawMixing, LambdaIsBetaDistributed) {
  for (const float alpha : {0.1f, 0.8f, 1.0f, 4.0f}) {
    double sum = 0, squares = 0, fourth = 0;
    for (const Mixing& mixing : Draw({.mixup_alpha = alpha})) {
      ASSERT_EQ(mixing.kind, Mixing::Kind::kMixup);
      ASSERT_GE(mixing.lambda, 0);
      ASSERT_LE(mixing.lambda, 1);
      const double d = mixing.lambda - 0.5;
      sum += d;
      squares += d * d;
      fourth += d * d * d * d;
    }
    const double variance = 1 / (4 * (2 * alpha + 1.0));
    const double spread = std::sqrt(fourth / kDraws - std::pow(squares / kDraws, 2));
    EXPECT_NEAR(sum / kDraws, 0, FourSigma(std::sqrt(variance))) << alpha;
    EXPECT_NEAR(squares / kDraws, variance, FourSigma(spread)) << alpha;
  }
}

TEST(DrawMixing, TinyAlphaStillGivesNumbers) {
  for (const Mixing& mixing : Draw({.mixup_alpha = 1e-4f})) {
    ASSERT_TRUE(mixing.lambda >= 0 && mixing.lambda <= 1) << mixing.lambda;
  }
}

TEST(DrawMixing, ChoosesBetweenTheKinds) {
  const std::vector<Mixing> drawn = Draw(
      {.mixup_alpha = 0.8f, .cutmix_alpha = 1, .probability = 0.75f, .switch_probability = 0.25f});
  const double most = kDraws * FourSigma(0.5);
  EXPECT_NEAR(Count(drawn, Mixing::Kind::kNone), kDraws / 4.0, most);
  EXPECT_NEAR(Count(drawn, Mixing::Kind::kCutmix), kDraws * 3 / 16.0, most);
  EXPECT_EQ(Count(Draw({.mixup_alpha = 1}), Mixing::Kind::kMixup), kDraws);
  EXPECT_EQ(Count(Draw({.cutmix_alpha = 1}), Mixing::Kind::kCutmix), kDraws);
  EXPECT_EQ(Count(Draw({}), Mixing::Kind::kNone), kDraws);
}

TEST(DrawMixing, BoxesLieInsideAndGiveTheirShare) {
  double center_x = 0;
  int unclipped = 0;
  for (const Mixing& mixing : Draw({.cutmix_alpha = 1})) {
    const Region& box = mixing.box;
    ASSERT_TRUE(box.x >= 0 && box.y >= 0 && box.x + box.width <= 48 && box.y + box.height <= 32);
    ASSERT_FLOAT_EQ(mixing.lambda,
                    1 - static_cast<float>(box.width * box.height) / (32.0f * 48.0f));
    if (box.x == 0 || box.x + box.width == 48) continue;
    center_x += box.x + box.width / 2;
    ++unclipped;
  }
  EXPECT_GT(unclipped, kDraws / 10);
  EXPECT_NEAR(center_x / unclipped, 24, 4 * 14 / std::sqrt(unclipped));
}

TEST(DrawMixing, IsAFunctionOfTheKey) {
  const MixingOptions options{.mixup_alpha = 0.8f, .cutmix_alpha = 1};
  const Mixing a = DrawMixing(options, {.seed = 1, .step = 3}, 32, 32);
  const Mixing b = DrawMixing(options, {.seed = 1, .step = 3}, 32, 32);
  const Mixing c = DrawMixing(options, {.seed = 1, .step = 4}, 32, 32);
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.lambda, b.lambda);
  EXPECT_EQ(a.box, b.box);
  EXPECT_NE(a.lambda, c.lambda);
}

TEST(MixingOptions, AreChecked) {
  EXPECT_TRUE(MixingOptions{.mixup_alpha = 0.8f}.Validate().ok());
  EXPECT_THAT(std::string(MixingOptions{.mixup_alpha = -1}.Validate().message()),
              HasSubstr("mixup's alpha is -1"));
  EXPECT_THAT(std::string(MixingOptions{.cutmix_alpha = NAN}.Validate().message()),
              HasSubstr("CutMix's alpha is nan"));
  EXPECT_THAT(std::string(MixingOptions{.probability = 2}.Validate().message()),
              HasSubstr("must be between 0 and 1"));
}

TEST(MixImages, BlendsWithThePartner) {
  std::vector<float> images = {0, 1, 2, 10, 20, 30, 100, 200, 300};  // three images of one pixel
  MixImages(Mixup(0.75f), std::vector<int64_t>{2, 1, 0}, 1, 1, images);
  EXPECT_EQ(images, (std::vector<float>{25, 50.75f, 76.5f, 10, 20, 30, 75, 150.25f, 225.5f}));
}

TEST(MixImages, CutMixExchangesTheBox) {
  std::vector<float> images(2 * 2 * 3 * 3);
  for (size_t i = 0; i < images.size(); ++i) images[i] = static_cast<float>(i);
  const std::vector<float> before = images;
  const Mixing mixing{Mixing::Kind::kCutmix, 0.5f, {1, 0, 2, 1}};
  MixImages(mixing, std::vector<int64_t>{1, 0}, 2, 3, images);
  for (size_t i = 0; i < 18; ++i) {
    const bool inside = i >= 3 && i < 9;
    EXPECT_EQ(images[i], before[inside ? i + 18 : i]) << i;
    EXPECT_EQ(images[i + 18], before[inside ? i : i + 18]) << i;
  }
}

TEST(MixImages, WithoutMixingNothingChanges) {
  std::vector<float> images = {1, 2, 3, 4, 5, 6};
  MixImages({}, std::vector<int64_t>{1, 0}, 1, 1, images);
  EXPECT_EQ(images, (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

TEST(MixImagesDeathTest, PartnersMustBeMutual) {
  std::vector<float> images(9);
  EXPECT_DEATH(MixImages(Mixup(0.5f), std::vector<int64_t>{1, 2, 0}, 1, 1, images),
               "row 0 has partner 1, which has another");
}

TEST(MixedTargets, RowsOfTwoSmoothedLabels) {
  const std::vector<int32_t> labels = {0, 3, 1}, partners = {1, 3, 0};
  EXPECT_EQ(MixedTargets(0.75f, 0.5f, 4, labels, partners),
            (std::vector<float>{0.5f, 0.25f, 0.125f, 0.125f,     // 0 and 1
                                0.125f, 0.125f, 0.125f, 0.625f,  // 3 with itself
                                0.25f, 0.5f, 0.125f, 0.125f}));  // 1 and 0
}

TEST(MixedTargets, WithoutMixingOrSmoothingIsOneHot) {
  const std::vector<int32_t> labels = {2, 0};
  EXPECT_EQ(MixedTargets(1, 0, 3, labels, labels), (std::vector<float>{0, 0, 1, 1, 0, 0}));
}

TEST(MixedTargetsDeathTest, LabelsOutsideTheClasses) {
  const std::vector<int32_t> labels = {3};
  EXPECT_DEATH(MixedTargets(1, 0, 3, labels, labels), "label 3 among 3 classes");
}

}  // namespace
}  // namespace tost::data
