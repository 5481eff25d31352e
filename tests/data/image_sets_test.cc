#include "data/image_sets.h"

#include <set>

#include "data/image_parts.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"
#include "tests/data/test_sets.h"

namespace tost::data {
namespace {

using testing::Contains;
using testing::HasSubstr;

absl::StatusOr<ImageSets> Open(const Members& files, ImageSetOptions options = {}) {
  const TemporaryFolder folder;
  WriteBytes(folder.File("set.tar"), Pack("pax", files));
  options.data = {folder.File("set.tar")};
  return OpenImageSets(options);
}

Members Cifar10(int train, int test) {
  return {{"data_batch_1.bin", CifarRecords(train)}, {"test_batch.bin", CifarRecords(test)}};
}

Members Folders(const std::vector<std::string>& splits, int pictures) {
  Members files;
  for (const std::string& split : splits) {
    for (int i = 0; i < pictures; ++i) {
      files.emplace_back(split + "/a/" + std::to_string(i) + ".jpg", split + std::to_string(i));
      files.emplace_back(split + "/b/" + std::to_string(i) + ".jpg", split + std::to_string(i));
    }
  }
  return files;
}

std::set<std::string> Names(const ImageDataset& pictures) {
  std::set<std::string> names;
  for (const auto& item : pictures.items) names.insert(item.name);
  return names;
}

TEST(ImageSets, ValidationIsTheSameShareOfEveryClassAndNotInTraining) {
  const Members files = Cifar10(200, 10);
  const auto sets = Open(files, {.any_sizes = true});
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_EQ(sets->train.size(), 180);
  EXPECT_EQ(ClassCounts(sets->validation, 10), std::vector<int64_t>(10, 2));
  std::set<std::string> all = Names(sets->train);
  all.merge(Names(sets->validation));
  EXPECT_EQ(all.size(), 200u);
  // An item's picture goes with its name: the first pixel of record i is i modulo 256.
  for (int64_t i = 0; i < sets->validation.size(); ++i) {
    const std::string& name = sets->validation.items[static_cast<size_t>(i)].name;
    EXPECT_EQ(std::get<Image>(*sets->validation.read(i)).pixels[0],
              std::stoi(name.substr(name.rfind(' '))));
  }
}

TEST(ImageSets, TheDrawDependsOnTheSeedAlone) {
  const Members files = Cifar10(200, 10);
  const auto first = Open(files, {.seed = 1, .any_sizes = true});
  EXPECT_EQ(Names(first->validation),
            Names(Open(files, {.seed = 1, .any_sizes = true})->validation));
  EXPECT_NE(Names(first->validation),
            Names(Open(files, {.seed = 2, .any_sizes = true})->validation));
}

TEST(ImageSets, NothingIsHeldOutWhenAskedFor) {
  const auto sets = Open(Cifar10(20, 10), {.validation_fraction = 0, .any_sizes = true});
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_EQ(sets->train.size(), 20);
  EXPECT_EQ(sets->validation.size(), 0);
  EXPECT_THAT(sets->protocol, HasSubstr("validation: nothing is held out"));
}

TEST(ImageSets, AClassOfOnePictureStaysInTraining) {
  const auto sets = Open(Folders({"train"}, 1), {.validation_fraction = 0.9});
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_EQ(sets->train.size(), 2);
  EXPECT_EQ(sets->validation.size(), 0);
}

TEST(ImageSets, LabelledValFolderIsTheTestPartUnlessThereIsATestFolder) {
  const auto two = Open(Folders({"train", "val"}, 10));
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_EQ(two->format, "folders");
  EXPECT_EQ(two->train.size(), 18);
  EXPECT_EQ(two->validation.size(), 2);
  EXPECT_EQ(two->test.size(), 20);
  EXPECT_EQ(*Names(two->test).begin(), "val/a/0.jpg");
  const auto three = Open(Folders({"train", "val", "test"}, 10));
  EXPECT_EQ(three->train.size(), 20);
  EXPECT_EQ(*Names(three->validation).begin(), "val/a/0.jpg");
  EXPECT_EQ(*Names(three->test).begin(), "test/a/0.jpg");
}

TEST(ImageSets, TrainvalPutsBothPartsOfFlowersTogether) {
  const Flowers flowers = {.labels = std::vector<int>(40, 9),
                           .train = Range(1, 10),
                           .validation = Range(11, 20),
                           .test = Range(21, 40)};
  const auto official = Open(FlowersFiles(flowers), {.any_sizes = true});
  ASSERT_TRUE(official.ok()) << official.status();
  EXPECT_EQ(official->validation.size(), 10);
  const auto both = Open(FlowersFiles(flowers), {.protocol = "trainval", .any_sizes = true});
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->train.size(), 18);
  EXPECT_EQ(both->validation.size(), 2);
  EXPECT_THAT(both->protocol, HasSubstr("trainval"));
  for (const ImageDataset* part : {&both->train, &both->validation}) {
    for (int64_t i = 0; i < part->size(); ++i) {
      EXPECT_EQ(std::get<std::string>(*part->read(i)), part->items[static_cast<size_t>(i)].name);
    }
  }
}

TEST(ImageSets, FormatsAreToldByTheirFiles) {
  EXPECT_EQ(Open(Cifar10(20, 10), {.any_sizes = true})->format, "cifar10");
  EXPECT_EQ(Open({{"train.bin", CifarRecords(20, true)}, {"test.bin", CifarRecords(20, true)}},
                 {.any_sizes = true})
                ->format,
            "cifar100");
  EXPECT_THAT(Open(Cifar10(20, 10), {.any_sizes = true})->notes,
              Contains(HasSubstr("told by data_batch_1.bin")));
  ExpectOneLine(Open({{"readme.txt", ""}}).status(),
                {"set.tar", "no known set", "cifar10", "pets"});
  Members two = Cifar10(20, 10);
  for (auto& file : Folders({"train"}, 1)) two.push_back(file);
  ExpectOneLine(Open(two).status(), {"cifar10", "folders", "--format"});
  EXPECT_TRUE(Open(two, {.format = "folders"}).ok());
}

TEST(ImageSets, OptionsOutOfRangeAreNamed) {
  const Members files = Cifar10(20, 10);
  ExpectOneLine(Open(files, {.format = "mnist"}).status(), {"--format mnist", "cifar10"});
  ExpectOneLine(Open(files, {.labels = "rough"}).status(), {"--labels rough"});
  ExpectOneLine(Open(files, {.protocol = "trainval"}).status(), {"--protocol trainval", "cifar10"});
  ExpectOneLine(Open(files, {.validation_fraction = 1}).status(), {"--validation_fraction 1"});
  ExpectOneLine(OpenImageSets({}).status(), {"--data"});
}

}  // namespace
}  // namespace tost::data
