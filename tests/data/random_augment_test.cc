#include "data/random_augment.h"

#include <cmath>
#include <map>
#include <string>

#include "autograd/base/errors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_pictures.h"

namespace tost::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Convention = RandAugment::Convention;
using Operation = RandAugment::Operation;

constexpr int kDraws = 4000;

RandAugment Parsed(absl::string_view text) { return TOST_CHECK_VALUE(ParseRandAugment(text)); }

std::string ErrorOf(absl::string_view text) {
  return std::string(ParseRandAugment(text).status().message());
}

TEST(ParseRandAugment, TheOfficialRecipes) {
  const RandAugment timm = Parsed("rand-m9-mstd0.5-inc1");
  EXPECT_EQ(timm.convention, Convention::kTimm);
  EXPECT_EQ(timm.operations, 2);
  EXPECT_EQ(timm.magnitude, 9);
  EXPECT_EQ(timm.deviation, 0.5);
  EXPECT_TRUE(timm.increasing);
  EXPECT_EQ(timm.probability, 0.5);

  const RandAugment torchvision = Parsed("torchvision-n2-m14");
  EXPECT_EQ(torchvision.convention, Convention::kTorchvision);
  EXPECT_EQ(torchvision.operations, 2);
  EXPECT_EQ(torchvision.magnitude, 14);
  EXPECT_EQ(torchvision.probability, 1);
}

TEST(ParseRandAugment, WhatIsLeftOutHasTheLibrarysDefault) {
  EXPECT_EQ(Parsed("rand").magnitude, 10);
  EXPECT_EQ(Parsed("rand").deviation, 0);
  EXPECT_FALSE(Parsed("rand-inc0").increasing);
  EXPECT_EQ(Parsed("torchvision").magnitude, 9);
  EXPECT_EQ(Parsed("rand-p0.25-n3").probability, 0.25);
  EXPECT_TRUE(std::isinf(Parsed("rand-mstd101").deviation));
}

TEST(ParseRandAugment, SaysWhatItDoesNotUnderstand) {
  EXPECT_THAT(ErrorOf("augmix-m3"), AllOf(HasSubstr("\"augmix-m3\""), HasSubstr("rand-m9")));
  EXPECT_THAT(ErrorOf(""), HasSubstr("begins neither"));
  EXPECT_THAT(ErrorOf("rand-m"), HasSubstr("\"m\" is not a name and a number"));
  EXPECT_THAT(ErrorOf("rand-m9-"), HasSubstr("\"\" is not a name and a number"));
  EXPECT_THAT(ErrorOf("rand-m1e999"), HasSubstr("m must be a number from 0 to 10"));
  EXPECT_THAT(ErrorOf("rand-m-9"), HasSubstr("\"m\" is not"));
  EXPECT_THAT(ErrorOf("rand-m11"), HasSubstr("m must be a number from 0 to 10"));
  EXPECT_THAT(ErrorOf("rand-w0"), HasSubstr("no setting \"w\", only m, n, mstd, inc and p"));
  EXPECT_THAT(ErrorOf("rand-n17"), HasSubstr("n must be a whole number from 1 to 16"));
  EXPECT_THAT(ErrorOf("torchvision-m31"), HasSubstr("m must be a whole number from 0 to 30"));
  EXPECT_THAT(ErrorOf("torchvision-inc1"), HasSubstr("no setting \"inc\", only m and n"));
}

TEST(OperationsOf, EachConventionHasItsList) {
  EXPECT_EQ(OperationsOf(Convention::kTimm).size(), 15u);
  EXPECT_EQ(OperationsOf(Convention::kTorchvision).size(), 14u);
  for (Operation operation : OperationsOf(Convention::kTorchvision)) {
    EXPECT_NE(operation, Operation::kInvert);
    EXPECT_NE(operation, Operation::kSolarizeAdd);
  }
}

std::vector<DrawnOperation> DrawMany(const RandAugment& policy) {
  std::vector<DrawnOperation> all;
  for (int64_t row = 0; row < kDraws; ++row) {
    for (const DrawnOperation& drawn : DrawOperations(policy, {.seed = 3, .first_row = row}, 0)) {
      all.push_back(drawn);
    }
  }
  return all;
}

// Four standard deviations of how often something of this probability happens in `tries`.
double FourSigma(double tries, double probability) {
  return 4 * std::sqrt(tries * probability * (1 - probability));
}

TEST(DrawOperations, EachEquallyOftenAndEitherSign) {
  for (const char* text : {"rand-m9-p1", "torchvision"}) {
    const RandAugment policy = Parsed(text);
    std::map<Operation, int> counts;
    int negative = 0;
    for (const DrawnOperation& drawn : DrawMany(policy)) {
      ++counts[drawn.operation];
      negative += drawn.negative;
    }
    const double tries = 2 * kDraws, share = 1.0 / static_cast<double>(counts.size());
    EXPECT_EQ(counts.size(), OperationsOf(policy.convention).size());
    for (const auto& [operation, count] : counts) {
      EXPECT_NEAR(count, tries * share, FourSigma(tries, share)) << static_cast<int>(operation);
    }
    EXPECT_NEAR(negative, tries / 2, FourSigma(tries, 0.5));
  }
}

TEST(DrawOperations, AppliedWithTheirProbability) {
  const double tries = 2 * kDraws;
  EXPECT_EQ(DrawMany(Parsed("rand-p0")).size(), 0u);
  EXPECT_EQ(DrawMany(Parsed("rand-p1")).size(), tries);
  EXPECT_NEAR(static_cast<double>(DrawMany(Parsed("rand")).size()), tries / 2,
              FourSigma(tries, 0.5));
}

TEST(DrawOperations, TheMagnitudeScattersAroundItsMean) {
  double sum = 0, squares = 0, count = 0, uniform = 0;
  for (const DrawnOperation& drawn : DrawMany(Parsed("rand-m5-mstd0.5-p1"))) {
    sum += drawn.magnitude - 5;
    squares += std::pow(drawn.magnitude - 5, 2);
    ++count;
  }
  EXPECT_NEAR(sum / count, 0, 4 * 0.5 / std::sqrt(count));
  // The variance of a square of a normal is twice the square of its variance.
  EXPECT_NEAR(squares / count, 0.25, 4 * 0.25 * std::sqrt(2 / count));
  for (const DrawnOperation& drawn : DrawMany(Parsed("rand-m10-mstd101-p1"))) {
    uniform += drawn.magnitude;
  }
  EXPECT_NEAR(uniform / count, 5, 4 * 10 / std::sqrt(12 * count));
  for (const DrawnOperation& drawn : DrawMany(Parsed("rand-m9-mstd5-p1"))) {
    ASSERT_TRUE(drawn.magnitude >= 0 && drawn.magnitude <= 10) << drawn.magnitude;
  }
}

TEST(ApplyRandAugment, IsAFunctionOfTheKeyAndTheBlock) {
  const Image picture = NoisePicture(16, 16);
  const RandAugment policy = Parsed("rand-m9-mstd0.5-p1-n4");
  const Geometry geometry{Filter::kBicubic, {124, 116, 104}};
  const Image a = ApplyRandAugment(policy, geometry, {.seed = 9, .first_row = 4}, 0, picture);
  EXPECT_EQ(ApplyRandAugment(policy, geometry, {.seed = 9, .first_row = 4}, 0, picture), a);
  EXPECT_NE(ApplyRandAugment(policy, geometry, {.seed = 9, .first_row = 5}, 0, picture), a);
  EXPECT_NE(ApplyRandAugment(policy, geometry, {.seed = 9, .first_row = 4}, 64, picture), a);
}

TEST(ApplyRandAugment, HoldsEveryPictureAndExtreme) {
  const RandAugment wild = Parsed("rand-m10-mstd101-p1-n16");
  for (const auto& [width, height] : {std::pair{1, 1}, {1, 9}, {9, 1}, {2, 2}, {33, 17}}) {
    for (int64_t row = 0; row < 200; ++row) {
      const Image image = ApplyRandAugment(wild, {Filter::kBilinear, {}}, {.first_row = row}, 0,
                                           NoisePicture(width, height));
      ASSERT_EQ(image.width, width);
      ASSERT_EQ(image.height, height);
    }
  }
}

TEST(ArgumentOf, TheTwoConventionsMoveContentInOppositeDirections) {
  const RandAugment timm = Parsed("rand"), torchvision = Parsed("torchvision");
  EXPECT_EQ(ArgumentOf(timm, Operation::kTranslateX, 10, false, 100, 50), 45);
  EXPECT_EQ(ArgumentOf(timm, Operation::kTranslateY, 10, true, 100, 50), -22.5);
  EXPECT_EQ(ArgumentOf(torchvision, Operation::kTranslateX, 30, false, 331, 50), -150);
  EXPECT_EQ(ArgumentOf(torchvision, Operation::kTranslateX, 30, true, 331, 50), 150);
}

}  // namespace
}  // namespace tost::data
