#include "trainers/check_data.h"

#include "data/image_write.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"
#include "tests/data/test_images.h"
#include "tests/data/test_sets.h"

namespace tost::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(CheckImages, SizesCopiesAndBadFilesAreFound) {
  const std::string small = data::EncodePng(DrawnImage(20, 10));
  const std::string large = data::EncodePng(DrawnImage(40, 30));
  const std::string jpeg = EncodeJpeg(DrawnImage(25, 25));
  const TemporaryFolder folder;
  WriteTree(folder.path(), {{"train/a/1.png", small},
                            {"train/a/2.JPEG", jpeg},
                            {"train/a/3.png", small},  // within train
                            {"train/b/4.JPEG", jpeg.substr(0, jpeg.size() / 2)},
                            {"train/b/5.png", large},
                            {"val/a/6.png", data::EncodePng(DrawnImage(11, 10))},
                            {"val/b/7.jpg", small}});  // of train, with another label
  const auto sets = data::OpenImageSets({.data = {folder.path()}, .validation_fraction = 0});
  ASSERT_TRUE(sets.ok()) << sets.status();
  const auto check = CheckImages(*sets);
  ASSERT_TRUE(check.ok()) << check.status();
  ASSERT_EQ(check->parts.size(), 3u);
  const CheckedPart& train = check->parts[0];
  EXPECT_EQ(train.pictures, 5);
  EXPECT_EQ(train.decoded, 4);
  EXPECT_EQ(train.classes, 2);
  EXPECT_EQ(train.least, 2);
  EXPECT_EQ(train.most, 3);
  EXPECT_EQ(train.smallest_width, 20);
  EXPECT_EQ(train.smallest_height, 10);
  EXPECT_EQ(train.largest_width, 40);
  EXPECT_EQ(train.largest_height, 30);
  EXPECT_THAT(train.bad, ElementsAre(HasSubstr("train/b/4.JPEG")));
  EXPECT_THAT(check->repeated, ElementsAre("train/a/1.png = train/a/3.png"));
  EXPECT_THAT(check->shared, ElementsAre("train/a/1.png = val/b/7.jpg"));
  EXPECT_THAT(check->relabelled, ElementsAre("train/a/1.png = val/b/7.jpg"));
}

TEST(CheckImages, PicturesOfOtherExtentsAreNoCopies) {
  // The same bytes as 2 x 3 and as 3 x 2 pixels.
  const TemporaryFolder folder;
  WriteTree(folder.path(), {{"train/a/1.png", data::EncodePng(data::Image(2, 3))},
                            {"train/a/2.png", data::EncodePng(data::Image(3, 2))}});
  const auto check =
      CheckImages(*data::OpenImageSets({.data = {folder.path()}, .validation_fraction = 0}));
  ASSERT_TRUE(check.ok()) << check.status();
  EXPECT_THAT(check->repeated, ElementsAre());
}

}  // namespace
}  // namespace tost::train
