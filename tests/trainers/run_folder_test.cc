#include "trainers/run_folder.h"

#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"
#include "trainers/checkpoint.h"

namespace tost::train {
namespace {

class RunFolderTest : public testing::Test {
 protected:
  // A folder as a run leaves it.
  void MakeRun() {
    ASSERT_TRUE(RunFolder::Open(path_, RunMode::kNew).ok());
    ParameterSet params(Device::Cpu(), 1);
    params.Root().Add("w", {2}, Init::Ones(), Decay::kNo);
    params.Finalize();
    ASSERT_TRUE(
        SaveCheckpoint(path_ + "/checkpoints/" + CheckpointName(3), params, nullptr, {}).ok());
    WriteBytes(path_ + "/metrics.jsonl", "");
    WriteBytes(path_ + "/config.toml", "");
    WriteBytes(path_ + "/notes.txt", "the user's own");
  }

  TemporaryFolder folder_;
  std::string path_ = folder_.File("deep/run");
};

TEST_F(RunFolderTest, NewFolderIsMadeWithItsParents) {
  const absl::StatusOr<RunFolder> run = RunFolder::Open(path_, RunMode::kNew);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_TRUE(std::filesystem::is_directory(run->checkpoints()));
  EXPECT_EQ(run->metrics(), path_ + "/metrics.jsonl");
}

TEST_F(RunFolderTest, FolderThatIsNotEmptyIsRefused) {
  MakeRun();
  ExpectOneLine(RunFolder::Open(path_, RunMode::kNew).status(),
                {path_, "not empty", "--resume", "--overwrite"});
}

TEST_F(RunFolderTest, ResumeNeedsACheckpoint) {
  MakeRun();
  EXPECT_TRUE(RunFolder::Open(path_, RunMode::kResume).ok());
  std::filesystem::remove(path_ + "/checkpoints/" + CheckpointName(3));
  ExpectOneLine(RunFolder::Open(path_, RunMode::kResume).status(), {path_, "no checkpoint"});
  ExpectOneLine(RunFolder::Open(folder_.File("none"), RunMode::kResume).status(),
                {"none", "no checkpoint"});
  EXPECT_FALSE(std::filesystem::exists(folder_.File("none")));
}

TEST_F(RunFolderTest, OverwriteRemovesTheRunAndNothingElse) {
  MakeRun();
  const absl::StatusOr<RunFolder> run = RunFolder::Open(path_, RunMode::kOverwrite);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_TRUE(ListCheckpoints(run->checkpoints()).empty());
  EXPECT_FALSE(std::filesystem::exists(run->metrics()));
  EXPECT_FALSE(std::filesystem::exists(run->config()));
  EXPECT_TRUE(std::filesystem::exists(path_ + "/notes.txt"));
}

TEST_F(RunFolderTest, PathsThatCannotBeAFolder) {
  WriteBytes(folder_.File("file"), "x");
  ExpectOneLine(RunFolder::Open(folder_.File("file"), RunMode::kNew).status(),
                {folder_.File("file"), "is a file"});
  ExpectOneLine(RunFolder::Open(folder_.File("file/run"), RunMode::kNew).status(),
                {folder_.File("file/run")});
}

}  // namespace
}  // namespace tost::train
