#include "data/file_tree.h"

#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_archives.h"
#include "tests/data/test_files.h"
#include "tests/data/test_sets.h"

namespace tost::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Members kFiles = {
    {"set/b.bin", "bb"}, {"set/a/long.jpg", std::string(5000, 'x')}, {"set/a/empty.jpg", ""}};

std::shared_ptr<const FileTree> Open(const std::vector<std::string>& paths) {
  auto tree = FileTree::Open(paths);
  EXPECT_TRUE(tree.ok()) << tree.status();
  return tree.ok() ? *tree : std::make_shared<const FileTree>();
}

void ExpectFiles(const FileTree& tree) {
  ASSERT_THAT(tree.names(), ElementsAre("set/a/empty.jpg", "set/a/long.jpg", "set/b.bin"));
  EXPECT_EQ(*tree.Read(0), "");
  EXPECT_EQ(*tree.Read(1), std::string(5000, 'x'));
  EXPECT_EQ(*tree.Read(2), "bb");
  EXPECT_EQ(*tree.Read(2, 1, 1), "b");
  EXPECT_EQ(*tree.Bytes(1), 5000);
}

TEST(FileTree, FoldersAndArchivesOfAllKindsGiveTheSameFiles) {
  const TemporaryFolder folder;
  WriteTree(folder.File("folder"), kFiles);
  ExpectFiles(*Open({folder.File("folder")}));
  ExpectFiles(*Open({folder.File("folder/")}));
  for (const std::string format : {"ustar", "pax", "gnutar", "zip"}) {
    SCOPED_TRACE(format);
    const std::string bytes = Pack(format, kFiles);
    WriteBytes(folder.File("archive"), bytes);
    ExpectFiles(*Open({folder.File("archive")}));
    if (format == "zip") continue;
    for (const std::string filter : {"gzip", "xz", "zstd", "bzip2"}) {
      WriteBytes(folder.File("packed"), Compress(filter, bytes));
      const auto tree = Open({folder.File("packed")});
      ExpectFiles(*tree);
      EXPECT_THAT(tree->notes(), ElementsAre(HasSubstr("held in memory")));
    }
  }
}

TEST(FileTree, NamesOfAnyLengthComeOutOfTars) {
  const TemporaryFolder folder;
  for (const size_t length : {99u, 100u, 101u, 155u, 300u}) {
    const std::string name = absl::StrCat("folder/", std::string(length, 'n'), ".jpg");
    for (const std::string format : {"pax", "gnutar"}) {
      WriteBytes(folder.File("a.tar"), Pack(format, {{name, "content"}, {"z", "last"}}));
      const auto tree = Open({folder.File("a.tar")});
      ASSERT_THAT(tree->names(), ElementsAre(name, "z")) << format << length;
      EXPECT_EQ(*tree->Read(0), "content");
      EXPECT_EQ(*tree->Read(1), "last");
    }
  }
}

TEST(FileTree, ATarInATarIsAFolder) {
  const TemporaryFolder folder;
  const Members classes = {{"n1.tar", Pack("ustar", {{"n1_1.JPEG", "one"}, {"n1_2.JPEG", "two"}})},
                           {"n2.tar", Pack("ustar", {{"n2_1.JPEG", "three"}})}};
  WriteBytes(folder.File("train.tar"), Pack("ustar", classes));
  const auto tree = Open({folder.File("train.tar")});
  ASSERT_THAT(tree->names(), ElementsAre("n1/n1_1.JPEG", "n1/n1_2.JPEG", "n2/n2_1.JPEG"));
  EXPECT_EQ(*tree->Read(1), "two");
  EXPECT_EQ(*tree->Read(2), "three");
  EXPECT_THAT(tree->notes(), ElementsAre());
}

TEST(FileTree, AFolderOfDownloadsStandsForWhatIsInThem) {
  const TemporaryFolder folder;
  WriteBytes(folder.File("102flowers.tgz"), Compress("gzip", Pack("ustar", {{"jpg/1.jpg", "1"}})));
  WriteBytes(folder.File("setid.mat"), "mat");
  EXPECT_THAT(Open({folder.path()})->names(), ElementsAre("jpg/1.jpg", "setid.mat"));
  EXPECT_THAT(Open({folder.File("setid.mat"), folder.File("102flowers.tgz")})->names(),
              ElementsAre("jpg/1.jpg", "setid.mat"));
  // Unpacked there, the folder counts and not the archive.
  WriteTree(folder.path(), {{"jpg/2.jpg", "2"}});
  EXPECT_THAT(Open({folder.path()})->names(),
              ElementsAre("102flowers.tgz", "jpg/2.jpg", "setid.mat"));
}

TEST(FileTree, NamesThatLeadOutOfTheArchiveAndHiddenOnesArePassedOver) {
  const TemporaryFolder folder;
  WriteBytes(folder.File("a.tar"), Pack("pax", {{"../../etc/passwd", "x"},
                                                {"a/../../b", "x"},
                                                {"._a.jpg", "x"},
                                                {"__MACOSX/a.jpg", "x"},
                                                {"line\nbreak.jpg", "x"},
                                                {"./a/./ok.jpg", "ok"},
                                                {"/absolute.jpg", "ok"}}));
  const auto tree = Open({folder.File("a.tar")});
  EXPECT_THAT(tree->names(), ElementsAre("a/ok.jpg", "absolute.jpg"));
  EXPECT_GE(tree->skipped().count, 4);
  WriteTree(folder.File("f"), {{".git/x", ""}, {"Thumbs.db", ""}, {".hidden", ""}});
  EXPECT_THAT(Open({folder.File("f")})->names(), ElementsAre("Thumbs.db"));
  EXPECT_EQ(Open({folder.File("f")})->skipped().count, 2);
}

TEST(FileTree, FoldersWithoutFilesAreKnown) {
  const TemporaryFolder folder;
  WriteTree(folder.path(), {{"train/a/1.jpg", ""}});
  std::filesystem::create_directories(folder.File("train/b"));
  EXPECT_THAT(Open({folder.path()})->empty_folders(), ElementsAre("train/b"));
}

TEST(FileTree, LinksInCirclesEnd) {
  const TemporaryFolder folder;
  WriteTree(folder.path(), {{"a/1.jpg", "1"}});
  std::filesystem::create_directory_symlink(folder.path(), folder.File("a/again"));
  EXPECT_LT(Open({folder.path()})->size(), 20);
}

TEST(FileTree, WhatDoesNotFitIntoMemoryIsRefusedWithAdvice) {
  const TemporaryFolder folder;
  WriteBytes(folder.File("a.tgz"),
             Compress("gzip", Pack("ustar", {{"a", std::string(9000, 'a')}})));
  ExpectOneLine(FileTree::Open({folder.File("a.tgz")}, /*held_limit=*/8000).status(),
                {"a.tgz", "memory", "unpack it"});
}

TEST(FileTree, DamageIsNamed) {
  const TemporaryFolder folder;
  const std::string bytes = Pack("ustar", {{"a", std::string(900, 'a')}, {"b", "b"}});
  WriteBytes(folder.File("cut.tar"), bytes.substr(0, 1000));
  ExpectOneLine(FileTree::Open({folder.File("cut.tar")}).status(),
                {"cut.tar", "is cut", "at byte 0", "900 bytes"});
  std::string damaged = bytes;
  damaged[1536 + 3] = 'x';
  WriteBytes(folder.File("bad.tar"), damaged);
  ExpectOneLine(FileTree::Open({folder.File("bad.tar")}).status(),
                {"bad.tar", "no tar header at byte 1536"});
  WriteBytes(folder.File("cut.tgz"), Compress("gzip", bytes).substr(0, 60));
  ExpectOneLine(FileTree::Open({folder.File("cut.tgz")}).status(), {"cut.tgz", "damaged or cut"});
  WriteBytes(folder.File("one.gz"), Compress("gzip", "just a text"));
  ExpectOneLine(FileTree::Open({folder.File("one.gz")}).status(), {"one.gz", "no tar archive"});
  ExpectOneLine(FileTree::Open({folder.File("nothing")}).status(), {"cannot read", "nothing"});
}

TEST(FileTree, NoCutOrChangedByteOfATarIsReadBeyondItsEnd) {
  const TemporaryFolder folder;
  const std::string bytes = Pack("pax", {{std::string(200, 'n'), "content"}, {"b", "b"}});
  for (size_t at = 0; at < std::min<size_t>(bytes.size(), 3072); at += 7) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 0x5A);
    WriteBytes(folder.File("a"), changed);
    const auto tree = FileTree::Open({folder.File("a")});
    if (!tree.ok()) continue;
    for (int64_t i = 0; i < (*tree)->size(); ++i) EXPECT_TRUE((*tree)->Read(i).ok());
  }
}

TEST(FileTree, SeveralThreadsRead) {
  const TemporaryFolder folder;
  WriteBytes(folder.File("a.tar"), Pack("ustar", kFiles));
  const auto tree = Open({folder.File("a.tar")});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) EXPECT_EQ(tree->Read(1)->size(), 5000u);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(FileTree, FilesAreFoundByTheirLastPart) {
  const TemporaryFolder folder;
  WriteTree(folder.path(), {{"x/list.txt", ""}, {"y/list.txt", ""}, {"y/one.txt", ""}});
  const auto tree = Open({folder.path()});
  EXPECT_EQ(tree->name(*tree->Find("one.txt")), "y/one.txt");
  ExpectOneLine(tree->Find("none.txt").status(), {folder.path(), "no file called none.txt"});
  ExpectOneLine(tree->Find("list.txt").status(), {"x/list.txt", "y/list.txt"});
}

}  // namespace
}  // namespace tost::data
