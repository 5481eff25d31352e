#include "data/mixup.h"

#include "gtest/gtest.h"

namespace tost::data {
namespace {

TEST(MixImages, BlendsWithTheMirroredImage) {
  std::vector<float> images = {0, 1, 10, 20, 100, 200};  // three images of two values
  MixImages(0.75f, 3, images);
  EXPECT_EQ(images, (std::vector<float>{25, 50.75f, 10, 20, 75, 150.25f}));
}

TEST(MixImages, ABatchOfOneStaysAsItIs) {
  std::vector<float> image = {1, 2, 3};
  MixImages(0.3f, 1, image);
  EXPECT_EQ(image, (std::vector<float>{1, 2, 3}));
}

TEST(MixedTargets, RowsOfTwoSmoothedLabels) {
  const std::vector<int32_t> labels = {0, 3, 1};
  const std::vector<float> targets = MixedTargets(0.75f, 0.5f, 4, labels);
  EXPECT_EQ(targets, (std::vector<float>{0.5f, 0.25f, 0.125f, 0.125f,     // 0 and 1
                                         0.125f, 0.125f, 0.125f, 0.625f,  // 3 with itself
                                         0.25f, 0.5f, 0.125f, 0.125f}));  // 1 and 0
}

TEST(MixedTargets, WithoutMixingOrSmoothingIsOneHot) {
  EXPECT_EQ(MixedTargets(1, 0, 3, std::vector<int32_t>{2, 0}),
            (std::vector<float>{0, 0, 1, 1, 0, 0}));
}

TEST(MixedTargetsDeathTest, LabelsOutsideTheClasses) {
  EXPECT_DEATH(MixedTargets(1, 0, 3, std::vector<int32_t>{3}), "label 3 among 3 classes");
}

}  // namespace
}  // namespace tost::data
