#include "data/atomic_file.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"

namespace tost::data {
namespace {

using testing::ElementsAre;

std::span<const std::byte> Bytes(absl::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(AtomicFile, AppearsWithPublishOnly) {
  TemporaryFolder folder;
  {
    absl::StatusOr<AtomicFile> file = AtomicFile::Create(folder.File("a"));
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE(file->Append(Bytes("hello")).ok());
    ASSERT_TRUE(file->WriteAt(1, Bytes("u")).ok());
    ASSERT_TRUE(file->Append(Bytes("!")).ok());
    EXPECT_THAT(folder.Names(), ElementsAre("a.tmp"));
    ASSERT_TRUE(file->Publish().ok());
  }
  EXPECT_THAT(folder.Names(), ElementsAre("a"));
  EXPECT_EQ(ReadBytes(folder.File("a")), "hullo!");
}

TEST(AtomicFile, WithoutPublishTheOldFileStays) {
  TemporaryFolder folder;
  ASSERT_TRUE(WriteFileAtomically(folder.File("a"), "old").ok());
  {
    absl::StatusOr<AtomicFile> file = AtomicFile::Create(folder.File("a"));
    ASSERT_TRUE(file->Append(Bytes("new")).ok());
    ASSERT_TRUE(file->Finish().ok());
  }
  EXPECT_THAT(folder.Names(), ElementsAre("a"));
  EXPECT_EQ(ReadBytes(folder.File("a")), "old");
}

TEST(AtomicFile, LargeContent) {
  TemporaryFolder folder;
  std::string content;
  for (int i = 0; i < 700000; ++i) content += std::to_string(i);
  ASSERT_TRUE(WriteFileAtomically(folder.File("a"), content).ok());
  EXPECT_TRUE(*ReadFile(folder.File("a")) == content);
}

TEST(AtomicFile, FolderThatDoesNotExist) {
  ExpectOneLine(AtomicFile::Create("/no/such/folder/a").status(), {"/no/such/folder/a", "No such"});
}

TEST(AtomicFile, NotEnoughSpaceIsSeenBeforeWriting) {
  TemporaryFolder folder;
  const absl::Status status = AtomicFile::Create(folder.File("a"), int64_t{1} << 60).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  ExpectOneLine(status, {folder.File("a"), "1152921504606846976 bytes", "free"});
  EXPECT_TRUE(folder.Names().empty());
}

// The system's own refusal in the middle of a file, here by a limit on file sizes.
TEST(AtomicFile, FailedWriteLeavesTheOldFileAndNoTemporary) {
  TemporaryFolder folder;
  ASSERT_TRUE(WriteFileAtomically(folder.File("a"), "old").ok());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = 1 << 20, .rlim_max = 1 << 20};
    setrlimit(RLIMIT_FSIZE, &limit);
    const absl::Status status = WriteFileAtomically(folder.File("a"), std::string(4 << 20, 'x'));
    const bool named = std::string(status.message()).find(folder.File("a")) != std::string::npos;
    _exit(!status.ok() && named ? 0 : 1);
  }
  int outcome = 0;
  ASSERT_EQ(waitpid(child, &outcome, 0), child);
  EXPECT_EQ(outcome, 0);
  EXPECT_THAT(folder.Names(), ElementsAre("a"));
  EXPECT_EQ(ReadBytes(folder.File("a")), "old");
}

TEST(AtomicFile, ReadFileNamesWhatItCannotRead) {
  TemporaryFolder folder;
  ExpectOneLine(ReadFile(folder.File("none")).status(), {folder.File("none")});
  ExpectOneLine(ReadFile(folder.path()).status(), {folder.path()});
}

}  // namespace
}  // namespace tost::data
