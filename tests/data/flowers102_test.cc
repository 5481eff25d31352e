#include "data/flowers102.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"
#include "tests/data/test_sets.h"

namespace tost::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Flowers kFive = {
    .labels = {1, 102, 7, 1, 102}, .train = {5, 1}, .validation = {3}, .test = {2, 4}};

absl::StatusOr<ImageParts> Open(const Members& files, bool present_only = false) {
  const TemporaryFolder folder;
  WriteBytes(folder.File("set.tar"), Pack("ustar", files));
  const auto tree = FileTree::Open({folder.File("set.tar")});
  if (!tree.ok()) return tree.status();
  return OpenFlowers102(*tree, present_only);
}

TEST(Flowers102, PicturesComeWithTheirLabelsInTheOrderOfTheSplits) {
  const auto parts = Open(FlowersFiles(kFive));
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_EQ(parts->classes.size(), 102u);
  EXPECT_EQ(parts->classes[101], "102");
  ASSERT_EQ(parts->train.size(), 2);
  EXPECT_EQ(parts->train.items[0].name, "jpg/image_00005.jpg");
  EXPECT_EQ(parts->train.items[0].label, 101);
  EXPECT_EQ(parts->train.items[1].label, 0);
  EXPECT_EQ(parts->validation.items[0].label, 6);
  EXPECT_EQ(std::get<std::string>(*parts->test.read(1)), "jpg/image_00004.jpg");
}

TEST(Flowers102, MalformedTablesAreNamed) {
  Flowers flowers = kFive;
  flowers.labels = {0, 1, 102, 103, 255};
  ExpectOneLine(Open(FlowersFiles(flowers)).status(),
                {"imagelabels.mat", "picture 1 has label 0", "1 ... 102"});
  flowers.labels = {1, 1, 102, 103, 255};
  ExpectOneLine(Open(FlowersFiles(flowers)).status(), {"picture 4 has label 103"});
  flowers = kFive;
  flowers.train = {0, 9000};
  ExpectOneLine(Open(FlowersFiles(flowers)).status(),
                {"setid.mat", "trnid names picture 0", "1 ... 5"});
  flowers.train = {1, 9000};
  ExpectOneLine(Open(FlowersFiles(flowers)).status(), {"picture 9000"});
  flowers.train = {1, 3};
  ExpectOneLine(Open(FlowersFiles(flowers)).status(),
                {"setid.mat", "picture 3 is in trnid and in valid"});
  Members files = FlowersFiles(kFive);
  files[1].second = MatFile({{"trnid", {1}}, {"tstid", {2}}});
  ExpectOneLine(Open(files).status(), {"setid.mat", "no variable valid", "trnid, tstid"});
  files.erase(files.begin());
  ExpectOneLine(Open(files).status(), {"no file called imagelabels.mat"});
}

TEST(Flowers102, PicturesThatAreNotThereCanBeDoneWithout) {
  Members files = FlowersFiles(kFive);
  files.resize(4);  // pictures 1 and 2 stay
  ExpectOneLine(Open(files).status(),
                {"setid.mat", "3: jpg/image_00005.jpg, jpg/image_00003.jpg, jpg/image_00004.jpg"});
  const auto parts = Open(files, /*present_only=*/true);
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_EQ(parts->train.size(), 1);
  EXPECT_EQ(parts->validation.size(), 0);
  EXPECT_EQ(std::get<std::string>(*parts->test.read(0)), "jpg/image_00002.jpg");
  EXPECT_THAT(parts->notes, ElementsAre(HasSubstr("warning: ")));
}

}  // namespace
}  // namespace tost::data
