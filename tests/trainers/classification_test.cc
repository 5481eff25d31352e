#include "trainers/classification.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tost::train {
namespace {

using testing::HasSubstr;

Tensor Logits(const std::vector<float>& values, int64_t classes) {
  return Tensor::FromHost<float>({static_cast<int64_t>(values.size()) / classes, classes}, values);
}

TEST(ClassificationTally, CountsHitsAmongTheFirstOneAndFive) {
  ClassificationTally tally(6);
  tally.Add(Logits({9, 1, 2, 3, 4, 5,   // label 0: first
                    9, 1, 2, 3, 4, 5,   // label 2: fifth
                    9, 1, 2, 3, 4, 5},  // label 1: sixth
                   6),
            std::vector<int32_t>{0, 2, 1});
  EXPECT_EQ(tally.count(), 3);
  EXPECT_DOUBLE_EQ(tally.top1(), 1.0 / 3);
  EXPECT_DOUBLE_EQ(tally.top5(), 2.0 / 3);
  EXPECT_EQ(tally.Confused(2, 0), 1);
  EXPECT_EQ(tally.Confused(0, 0), 1);
  EXPECT_EQ(tally.CountOf(1), 1);
}

TEST(ClassificationTally, LossIsTheMeanCrossEntropyWhateverTheSizeOfLogits) {
  ClassificationTally tally(2);
  tally.Add(Logits({0, 0}, 2), std::vector<int32_t>{1});
  tally.Add(Logits({1e4f, 0}, 2), std::vector<int32_t>{1});
  EXPECT_DOUBLE_EQ(tally.loss(), (std::log(2.0) + 1e4) / 2);
}

TEST(ClassificationTally, TiesGoToTheLowerClassAndNoNumberIsNeverRight) {
  ClassificationTally tally(3);
  tally.Add(Logits({1, 1, 1, 1, 1, 1}, 3), std::vector<int32_t>{0, 1});
  EXPECT_DOUBLE_EQ(tally.top1(), 0.5);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  ClassificationTally broken(3);
  broken.Add(Logits({nan, nan, nan}, 3), std::vector<int32_t>{0});
  EXPECT_EQ(broken.top1(), 0);
  EXPECT_EQ(broken.top5(), 0);
}

TEST(ClassificationTally, ManySmallBatchesCountAsOneLargeOne) {
  const std::vector<float> values = {3, 1, 0, 2, 5, 4, 1, 0, 7};
  const std::vector<int32_t> labels = {0, 2, 1};
  ClassificationTally whole(3), parts(3);
  whole.Add(Logits(values, 3), labels);
  for (size_t i = 0; i < 3; ++i) {
    parts.Add(Logits({values.begin() + static_cast<int64_t>(3 * i),
                      values.begin() + static_cast<int64_t>(3 * i + 3)},
                     3),
              std::vector<int32_t>{labels[i]});
  }
  EXPECT_EQ(whole.loss(), parts.loss());
  EXPECT_EQ(whole.top1(), parts.top1());
}

TEST(ClassTable, NamesTheRivalOfEachClassThatOccurs) {
  ClassificationTally tally(3);
  tally.Add(Logits({5, 1, 1, 1, 5, 1, 1, 5, 1}, 3), std::vector<int32_t>{0, 0, 1});
  const std::string table = ClassTable(tally, {"cat", "dog", "cow"});
  EXPECT_THAT(table, HasSubstr("cat           2    50.0%  dog (1)"));
  EXPECT_THAT(table, HasSubstr("dog           1   100.0%\n"));
  EXPECT_THAT(table, testing::Not(HasSubstr("cow ")));
}

TEST(ConfusionPicture, GrowsWithTheClassesAndIsTheSameEachTime) {
  ClassificationTally few(2), many(100);
  const data::Image small = ConfusionPicture(few, {"a", "b"});
  EXPECT_EQ(small, ConfusionPicture(few, {"a", "b"}));
  EXPECT_GT(ConfusionPicture(many, {}).height, 100);
}

}  // namespace
}  // namespace tost::train
