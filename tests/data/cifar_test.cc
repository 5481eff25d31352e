#include "data/cifar.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"
#include "tests/data/test_sets.h"

namespace tost::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const char kTenNames[] = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n";

Members Cifar10(const std::string& train) {
  return {{"cifar-10-batches-bin/data_batch_1.bin", train},
          {"cifar-10-batches-bin/test_batch.bin", CifarRecords(10)}};
}

absl::StatusOr<ImageParts> Open(const Members& files, CifarLabels labels = CifarLabels::kCifar10) {
  // Archives keep their files open or in memory, so the folder may go.
  const TemporaryFolder folder;
  WriteBytes(folder.File("set.tar"), Pack("ustar", files));
  const auto tree = FileTree::Open({folder.File("set.tar")});
  if (!tree.ok()) return tree.status();
  return OpenCifar(*tree, labels);
}

Members Cifar100(const std::string& train) {
  return {{"train.bin", train}, {"test.bin", CifarRecords(20, /*cifar100=*/true)}};
}

TEST(Cifar10, BatchesOfAnyLengthFollowEachOther) {
  Members files = Cifar10(CifarRecords(3));
  files.emplace_back("cifar-10-batches-bin/data_batch_2.bin",
                     CifarRecord({7}, 100) + CifarRecord({8}, 200));
  files.emplace_back("cifar-10-batches-bin/batches.meta.txt", kTenNames);
  const auto parts = Open(files);
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_THAT(parts->classes, ElementsAre("a", "b", "c", "d", "e", "f", "g", "h", "i", "j"));
  ASSERT_EQ(parts->train.size(), 5);
  EXPECT_EQ(parts->test.size(), 10);
  EXPECT_EQ(parts->train.items[4].label, 8);
  EXPECT_EQ(parts->train.items[4].name, "cifar-10-batches-bin/data_batch_2.bin record 1");
  const Image image = std::get<Image>(*parts->train.read(4));
  EXPECT_EQ(image.width, 32);
  EXPECT_EQ(image.height, 32);
  // Pixel 33 of a plane is column 1 of row 1; a plane has 1024 = 4 · 256 bytes.
  EXPECT_THAT(std::vector<uint8_t>(image.Pixel(1, 1), image.Pixel(1, 1) + 3),
              ElementsAre(233, 233, 233));
  EXPECT_EQ(std::get<Image>(*parts->train.read(2)).Pixel(0, 0)[0], 2);
}

TEST(Cifar10, PlanesBecomePixels) {
  std::string planes(3072, '\0');
  planes[5] = 10;            // red of column 5, row 0
  planes[1024 + 32] = 20;    // green of column 0, row 1
  planes[2048 + 1023] = 30;  // blue of column 31, row 31
  const Image image = CifarImage(planes);
  EXPECT_EQ(image.Pixel(5, 0)[0], 10);
  EXPECT_EQ(image.Pixel(0, 1)[1], 20);
  EXPECT_EQ(image.Pixel(31, 31)[2], 30);
}

TEST(Cifar10, MalformedFilesAreNamed) {
  const auto error = [](const std::string& train) { return Open(Cifar10(train)).status(); };
  ExpectOneLine(error(CifarRecords(10) + std::string(1000, 'x')),
                {"data_batch_1.bin", "not a multiple of 3073", "10 records and 1000 bytes"});
  ExpectOneLine(error(std::string(500, 'x')), {"data_batch_1.bin", "0 records and 500 bytes"});
  ExpectOneLine(error(""), {"data_batch_1.bin", "empty"});
  ExpectOneLine(error(CifarRecords(2) + CifarRecord({10}) + CifarRecords(1) + CifarRecord({255})),
                {"data_batch_1.bin", "record 2", "label 10", "0 ... 9"});
  Members files = Cifar10(CifarRecords(10));
  files.emplace_back("batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\n");
  ExpectOneLine(Open(files).status(), {"batches.meta.txt", "9 names", "10 classes"});
  files = Cifar10(CifarRecords(10));
  files.pop_back();
  ExpectOneLine(Open(files).status(), {"no file called test_batch.bin"});
  ExpectOneLine(Open({{"cifar-10-batches-py/data_batch_1", "pickle"}}).status(),
                {"Python version", "binary version"});
}

TEST(Cifar100, MalformedFilesAreNamed) {
  const auto error = [](const std::string& records,
                        CifarLabels labels = CifarLabels::kCifar100Fine) {
    return Open(Cifar100(CifarRecords(1, /*cifar100=*/true) + records), labels).status();
  };
  ExpectOneLine(error(CifarRecord({20, 0})), {"train.bin", "record 1", "coarse label 20"});
  ExpectOneLine(error(CifarRecord({11, 100})), {"train.bin", "record 1", "fine label 100"});
  ExpectOneLine(error(CifarRecord({5, 19}), CifarLabels::kCifar100Coarse),
                {"train.bin", "record 1", "coarse label 5", "fine label 19 is 11"});
}

TEST(Cifar100, CoarseLabelsThatDisagreeAreNotedWhenFineOnesAreUsed) {
  const auto parts =
      Open(Cifar100(CifarRecord({5, 19}) + CifarRecord({11, 19})), CifarLabels::kCifar100Fine);
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_EQ(parts->train.items[0].label, 19);
  EXPECT_THAT(parts->notes, ElementsAre(HasSubstr("record 0 (counted from 0) has coarse label 5")));
}

TEST(Cifar100, FineAndCoarseLabelsCanBeHad) {
  const Members files = Cifar100(CifarRecord({11, 19}));
  const auto fine = Open(files, CifarLabels::kCifar100Fine);
  const auto coarse = Open(files, CifarLabels::kCifar100Coarse);
  ASSERT_TRUE(fine.ok() && coarse.ok()) << fine.status() << coarse.status();
  EXPECT_EQ(fine->train.items[0].label, 19);
  EXPECT_EQ(fine->classes.size(), 100u);
  EXPECT_EQ(coarse->train.items[0].label, 11);
  EXPECT_EQ(coarse->classes.size(), 20u);
}

}  // namespace
}  // namespace tost::data
