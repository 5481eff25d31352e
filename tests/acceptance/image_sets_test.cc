// Acceptance of picture data sets; the names are those of the acceptance statements.
#include "data/image_sets.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"
#include "tests/data/test_sets.h"

namespace tost::data {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

absl::StatusOr<ImageSets> Open(const Members& files, ImageSetOptions options = {}) {
  const TemporaryFolder folder;
  WriteBytes(folder.File("set.tar"), Pack("ustar", files));
  options.data = {folder.File("set.tar")};
  return OpenImageSets(options);
}

Flowers FlowersOf(int train, int validation, int test) {
  Flowers flowers;
  const int pictures = train + validation + test;
  for (int i = 0; i < pictures; ++i) flowers.labels.push_back(i % 102 + 1);
  flowers.train = Range(1, train);
  flowers.validation = Range(train + 1, train + validation);
  flowers.test = Range(train + validation + 1, pictures);
  return flowers;
}

TEST(D17, FlowersLabelsOneAnd102BecomeZeroAnd101) {
  const auto sets =
      Open(FlowersFiles({.labels = {1, 102}, .train = {1, 2}, .validation = {}, .test = {}}),
           {.validation_fraction = 0, .any_sizes = true});
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_EQ(sets->train.items[0].label, 0);
  EXPECT_EQ(sets->train.items[1].label, 101);
}

TEST(D18, SizesAndProtocolAreSaid) {
  const auto sets = Open(FlowersFiles(FlowersOf(1020, 1020, 6149)));
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_EQ(sets->protocol, "flowers102, official; validation: valid");
  EXPECT_THAT(sets->notes, AllOf(Contains(HasSubstr("protocol flowers102, official")),
                                 Contains(HasSubstr("training: 1020 pictures of 102 classes")),
                                 Contains(HasSubstr("validation: 1020 pictures")),
                                 Contains(HasSubstr("test: 6149 pictures"))));
}

TEST(D18, SwappedAndRepackedFlowersStopUnlessOverridden) {
  const Members swapped = FlowersFiles(FlowersOf(6149, 1020, 1020));
  ExpectOneLine(Open(swapped).status(), {"6149 training, 1020 validation and 1020 test", "swapped",
                                         "1020, 1020 and 6149", "--any_sizes"});
  ExpectOneLine(Open(FlowersFiles(FlowersOf(6552, 818, 819))).status(), {"repack", "--any_sizes"});
  const auto sets = Open(swapped, {.any_sizes = true});
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_THAT(sets->protocol, HasSubstr("other sizes (6149/1020/1020)"));
  EXPECT_THAT(sets->notes, Contains(AllOf(HasSubstr("warning: "), HasSubstr("swapped"))));
}

TEST(D18, TheRepackIsKnownAsClassFoldersToo) {
  Members files;
  const std::pair<const char*, int> parts[] = {{"train", 6552}, {"valid", 818}, {"test", 819}};
  for (const auto& [part, pictures] : parts) {
    for (int i = 0; i < pictures; ++i) {
      files.emplace_back(absl::StrCat(part, "/", i % 102 + 1, "/", i, ".jpg"), "");
    }
  }
  ExpectOneLine(Open(files).status(), {"6552 training, 818 validation and 819", "repack"});
}

TEST(D18, OtherSizesOfCifarStopUnlessOverridden) {
  const Members files = {{"data_batch_1.bin", CifarRecords(20)},
                         {"test_batch.bin", CifarRecords(10)}};
  ExpectOneLine(Open(files).status(),
                {"20 training and 10 test", "50000 training and 10000 test", "--any_sizes"});
  EXPECT_TRUE(Open(files, {.any_sizes = true}).ok());
}

TEST(D19, RecordOfTwoLabelBytes) {
  // The pixel bytes 0, 1, 2, … modulo 256.
  const std::string record = CifarRecord({11, 19});
  const Members files = {{"train.bin", record}, {"test.bin", record}};
  const auto fine = Open(files, {.any_sizes = true});
  const auto coarse = Open(files, {.labels = "coarse", .any_sizes = true});
  ASSERT_TRUE(fine.ok()) << fine.status();
  ASSERT_TRUE(coarse.ok()) << coarse.status();
  EXPECT_EQ(fine->train.items[0].label, 19);
  EXPECT_EQ(coarse->train.items[0].label, 11);
  const Image image = std::get<Image>(*fine->train.read(0));
  EXPECT_EQ(image.Pixel(0, 0)[0], 0);
  EXPECT_EQ(image.Pixel(31, 0)[0], 31);
}

TEST(D19, OneCifarGivenAsTheOtherIsNamed) {
  const std::string ten = CifarRecords(10), hundred = CifarRecords(7, /*cifar100=*/true);
  const Members cifar10 = {{"data_batch_1.bin", ten}, {"test_batch.bin", ten}};
  const Members cifar100 = {{"train.bin", hundred}, {"test.bin", hundred}};
  ExpectOneLine(Open(cifar10, {.format = "cifar100"}).status(),
                {"looks like CIFAR-10", "--format cifar10"});
  ExpectOneLine(Open(cifar100, {.format = "cifar10"}).status(),
                {"looks like CIFAR-100", "--format cifar100"});
  // Under the other set's names it is the sizes that tell.
  ExpectOneLine(Open({{"train.bin", ten}, {"test.bin", ten}}).status(),
                {"train.bin", "looks like CIFAR-10", "30730 bytes", "3074"});
  ExpectOneLine(Open({{"data_batch_1.bin", hundred}, {"test_batch.bin", hundred}}).status(),
                {"data_batch_1.bin", "looks like CIFAR-100", "21518 bytes", "3073"});
}

TEST(D20, AFullSplitWithoutAClassIsRefused) {
  Flowers flowers = FlowersOf(1020, 1020, 6149);
  for (int i = 0; i < 1020; ++i) {
    if (flowers.labels[static_cast<size_t>(i)] == 5) flowers.labels[static_cast<size_t>(i)] = 6;
  }
  ExpectOneLine(Open(FlowersFiles(flowers)).status(),
                {"training part has no picture of these of the 102 classes: 1: 5", "--any_sizes"});
  EXPECT_THAT(Open(FlowersFiles(flowers), {.any_sizes = true})->notes,
              Contains(HasSubstr("warning: the training part has no picture")));
  std::string threes;
  for (int i = 0; i < 10; ++i) threes += CifarRecord({3});
  ExpectOneLine(Open({{"data_batch_1.bin", threes}, {"test_batch.bin", threes}}).status(),
                {"training part has no picture", "9, the first five: 0, 1, 2, 4, 5"});
}

TEST(D23, AbsentFilesAreOneLineWithTheCountAndTheFirstFive) {
  Members files = FlowersFiles(FlowersOf(1020, 1020, 6149));
  files.resize(files.size() - 7);
  ExpectOneLine(Open(files).status(),
                {"setid.mat",
                 "7, the first five: jpg/image_08183.jpg, jpg/image_08184.jpg, "
                 "jpg/image_08185.jpg, jpg/image_08186.jpg, jpg/image_08187.jpg;"});
  ExpectOneLine(Open({{"trainval.txt", "Abyssinian_1 1 1 1\nAbyssinian_2 1 1 1\n"},
                      {"test.txt", "beagle_1 5 2 4\n"},
                      {"images/Abyssinian_1.jpg", ""}})
                    .status(),
                {"2: images/Abyssinian_2.jpg, images/beagle_1.jpg"});
}

}  // namespace
}  // namespace tost::data
