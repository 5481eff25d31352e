#include "data/image_folders.h"

#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"
#include "tests/data/test_sets.h"

namespace tost::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

absl::StatusOr<ImageParts> Open(const std::vector<std::string>& paths) {
  const auto tree = FileTree::Open(paths);
  if (!tree.ok()) return tree.status();
  return OpenImageFolders(*tree);
}

absl::StatusOr<ImageParts> OpenFolder(const Members& files) {
  const TemporaryFolder folder;
  WriteTree(folder.path(), files);
  return Open({folder.path()});
}

std::vector<std::string> Names(const ImageDataset& pictures) {
  std::vector<std::string> names;
  for (const auto& item : pictures.items) names.push_back(std::to_string(item.label) + item.name);
  return names;
}

TEST(ImageFolders, ClassesAreNumberedByTheirSortedNames) {
  const auto parts = OpenFolder({{"set/train/n2/b.JPEG", ""},
                                 {"set/train/n2/a.jpg", ""},
                                 {"set/train/n10/deep/c.PNG", ""},
                                 {"set/val/n2/d.gif", ""},
                                 {"set/val/n10/e.jpeg", ""},
                                 {"set/noisy.csv", ""},
                                 {"set/train/n2/Thumbs.db", ""},
                                 {"set/train/n2/.hidden.JPEG", ""}});
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_THAT(parts->classes, ElementsAre("n10", "n2"));
  EXPECT_THAT(Names(parts->train), ElementsAre("0set/train/n10/deep/c.PNG", "1set/train/n2/a.jpg",
                                               "1set/train/n2/b.JPEG"));
  EXPECT_THAT(Names(parts->validation), ElementsAre("0set/val/n10/e.jpeg", "1set/val/n2/d.gif"));
  EXPECT_EQ(parts->test.size(), 0);
  EXPECT_THAT(parts->notes, ElementsAre(HasSubstr("2 other files ignored")));
}

TEST(ImageFolders, ThreeSplitsAndTheirOtherNames) {
  for (const std::string val : {"val", "valid", "validation"}) {
    const auto parts =
        OpenFolder({{"train/a/1.jpg", ""}, {val + "/a/2.jpg", ""}, {"test/a/3.jpg", ""}});
    ASSERT_TRUE(parts.ok()) << parts.status();
    EXPECT_EQ(parts->validation.size(), 1);
    EXPECT_EQ(parts->test.size(), 1);
  }
}

TEST(ImageFolders, ArchivesOfImageNetAreReadAsTheyAre) {
  const TemporaryFolder folder;
  const Members train = {{"n1.tar", Pack("ustar", {{"n1_1.JPEG", "1"}, {"n1_2.JPEG", "2"}})},
                         {"n2.tar", Pack("ustar", {{"n2_1.JPEG", "3"}})}};
  WriteBytes(folder.File("ILSVRC2012_img_train.tar"), Pack("ustar", train));
  const auto parts = Open({folder.File("ILSVRC2012_img_train.tar")});
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_THAT(parts->classes, ElementsAre("n1", "n2"));
  EXPECT_EQ(std::get<std::string>(*parts->train.read(2)), "3");
  // Its validation archive has no labels.
  WriteBytes(folder.File("ILSVRC2012_img_val.tar"),
             Pack("ustar", {{"val_1.JPEG", "1"}, {"val_2.JPEG", "1"}}));
  ExpectOneLine(Open({folder.path()}).status(),
                {"ILSVRC2012_img_val.tar: val_1.JPEG", "no class folder (1 of 2 such pictures)"});
}

TEST(ImageFolders, ATestFolderWithoutClassesIsIgnored) {
  const auto parts = OpenFolder({{"train/a/1.jpg", ""}, {"test/9.jpg", ""}});
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_EQ(parts->test.size(), 0);
  EXPECT_THAT(parts->notes, ElementsAre(HasSubstr("test/9.jpg")));
}

TEST(ImageFolders, WhatIsWrongIsNamed) {
  ExpectOneLine(OpenFolder({{"train/n00000000/notes.txt", ""}}).status(),
                {"class n00000000 has no picture"});
  ExpectOneLine(OpenFolder({{"train/a/1.jpg", ""}, {"val/b/1.jpg", ""}}).status(),
                {"class b", "val/b/1.jpg", "none of the classes of train"});
  ExpectOneLine(OpenFolder({{"train/a/1.jpg", ""}, {"train/loose.jpg", ""}}).status(),
                {"train/loose.jpg", "no class folder"});
  ExpectOneLine(OpenFolder({{"x/train/a/1.jpg", ""}, {"y/train/a/1.jpg", ""}}).status(),
                {"two trees", "x/", "y/"});
  ExpectOneLine(OpenFolder({{"a/1.jpg", ""}}).status(), {"no train/CLASS/PICTURE"});
  const TemporaryFolder folder;
  WriteTree(folder.path(), {{"train/a/1.jpg", ""}});
  std::filesystem::create_directories(folder.File("train/b"));
  ExpectOneLine(Open({folder.path()}).status(), {"class b has no picture"});
}

}  // namespace
}  // namespace tost::data
