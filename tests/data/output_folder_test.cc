#include "data/output_folder.h"

#include <filesystem>
#include <string>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"

namespace tost::data {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

bool IsBin(absl::string_view name) { return absl::EndsWith(name, ".bin"); }

class OutputFolderTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<OutputFolder>> Create(bool overwrite = false) {
    return OutputFolder::Create(path_, overwrite, &IsBin);
  }
  // A whole life of a folder that holds one file.
  absl::Status Make(const std::string& content, bool overwrite) {
    absl::StatusOr<std::unique_ptr<OutputFolder>> output = Create(overwrite);
    if (!output.ok()) return output.status();
    WriteBytes((*output)->partial() + "/a.bin", content);
    return (*output)->Publish();
  }

  TemporaryFolder folder_;
  std::string path_ = folder_.File("out");
};

TEST_F(OutputFolderTest, AppearsWhenPublished) {
  {
    const auto output = Create();
    ASSERT_TRUE(output.ok()) << output.status();
    WriteBytes((*output)->partial() + "/a.bin", "new");
    EXPECT_FALSE(fs::exists(path_));
    ASSERT_TRUE((*output)->Publish().ok());
  }
  EXPECT_EQ(ReadBytes(path_ + "/a.bin"), "new");
  EXPECT_THAT(folder_.Names(), ElementsAre("out"));
}

TEST_F(OutputFolderTest, WithoutPublishNothingChanges) {
  ASSERT_TRUE(Make("old", false).ok());
  {
    const auto output = Create(/*overwrite=*/true);
    ASSERT_TRUE(output.ok()) << output.status();
    WriteBytes((*output)->partial() + "/a.bin", "new");
  }
  EXPECT_EQ(ReadBytes(path_ + "/a.bin"), "old");
  EXPECT_THAT(folder_.Names(), ElementsAre("out"));
}

TEST_F(OutputFolderTest, ReplacesTheOldOneOnlyWhenAsked) {
  fs::create_directory(path_);  // empty: no reason to ask
  ASSERT_TRUE(Make("old", false).ok());
  ExpectOneLine(Make("new", false), {"out/a.bin exists", "--overwrite"});
  EXPECT_EQ(ReadBytes(path_ + "/a.bin"), "old");
  ASSERT_TRUE(Make("new", true).ok());
  EXPECT_EQ(ReadBytes(path_ + "/a.bin"), "new");
  EXPECT_THAT(folder_.Names(), ElementsAre("out"));
}

TEST_F(OutputFolderTest, NeverDeletesWhatIsNotOurs) {
  fs::create_directory(path_);
  WriteBytes(path_ + "/thesis.tex", "mine");
  ExpectOneLine(Make("new", true), {"out/thesis.tex", "in the way"});
  EXPECT_THAT(folder_.Names(), ElementsAre("out"));
  fs::remove_all(path_);
  fs::create_directory(path_ + ".partial");
  WriteBytes(path_ + ".partial/thesis.tex", "mine");
  ExpectOneLine(Make("new", true), {"out.partial/thesis.tex", "in the way"});
  EXPECT_EQ(ReadBytes(path_ + ".partial/thesis.tex"), "mine");
}

TEST_F(OutputFolderTest, WhatAKilledProcessLeftIsRemoved) {
  fs::create_directory(path_ + ".partial");
  WriteBytes(path_ + ".partial/half.bin", "half");
  ASSERT_TRUE(Make("new", false).ok());
  EXPECT_FALSE(fs::exists(path_ + "/half.bin"));
  EXPECT_THAT(folder_.Names(), ElementsAre("out"));
}

TEST_F(OutputFolderTest, OneProcessAtATime) {
  const auto output = Create();
  ASSERT_TRUE(output.ok());
  ExpectOneLine(Create().status(), {"out.partial", "another process"});
  ASSERT_TRUE((*output)->Publish().ok());
}

TEST_F(OutputFolderTest, PathsThatAreNoSiblings) {
  path_ = folder_.File("new/deep/out/");
  ASSERT_TRUE(Make("a", false).ok());
  EXPECT_EQ(ReadBytes(folder_.File("new/deep/out/a.bin")), "a");
  fs::create_directory_symlink(folder_.File("new/deep/out"), folder_.File("link"));
  path_ = folder_.File("link");
  ASSERT_TRUE(Make("b", true).ok());
  EXPECT_EQ(ReadBytes(folder_.File("new/deep/out/a.bin")), "b");
  WriteBytes(folder_.File("file"), "");
  path_ = folder_.File("file");
  ExpectOneLine(Make("c", true), {"file"});
  path_ = "/";
  ExpectOneLine(Make("c", true), {"/"});
}

TEST_F(OutputFolderTest, RelativePaths) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_.path());
  path_ = "here";
  const absl::Status status = Make("a", false);
  fs::current_path(before);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(ReadBytes(folder_.File("here/a.bin")), "a");
}

}  // namespace
}  // namespace tost::data
