#include "data/token_file.h"

#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"

namespace tost::data {
namespace {

using testing::ElementsAre;

constexpr int64_t kGpt2 = 50257;

std::vector<int32_t> ReadAll(const TokenFile& file) {
  std::vector<int32_t> ids(static_cast<size_t>(file.size()));
  EXPECT_TRUE(file.Read(0, ids).ok());
  return ids;
}

absl::Status Write(const std::string& path, int64_t vocabulary, const std::vector<int32_t>& ids,
                   int width = 0) {
  absl::StatusOr<TokenFileWriter> writer =
      TokenFileWriter::Create(path, {.vocabulary = vocabulary, .width = width});
  if (!writer.ok()) return writer.status();
  if (absl::Status status = writer->Append(ids); !status.ok()) return status;
  if (absl::Status status = writer->Finish(); !status.ok()) return status;
  return writer->Publish();
}

class TokenFileTest : public testing::Test {
 protected:
  absl::Status OpenStatus(absl::string_view bytes, int64_t vocabulary = kGpt2) {
    WriteBytes(path_, bytes);
    return TokenFile::Open(path_, vocabulary).status();
  }

  TemporaryFolder folder_;
  std::string path_ = folder_.File("t.bin");
};

TEST_F(TokenFileTest, RoundTripAndLayout) {
  ASSERT_TRUE(Write(path_, 65, {1, 2, 64, 0}).ok());
  const absl::StatusOr<TokenFile> file = TokenFile::Open(path_, 0);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(ReadAll(*file), ElementsAre(1, 2, 64, 0));
  EXPECT_EQ(file->vocabulary(), 65);
  EXPECT_EQ(*file->LargestId(), 64);
  EXPECT_EQ(file->Description(), path_ + ": 4 tokens of 16 bits (tost header)");
  const std::string bytes = ReadBytes(path_);
  ASSERT_EQ(bytes.size(), 1024u + 8u);
  EXPECT_EQ(bytes.substr(0, 8), std::string("TOSTTOK\0", 8));
  EXPECT_EQ(bytes.substr(1024), BytesOf<uint16_t>({1, 2, 64, 0}));
}

TEST_F(TokenFileTest, RecordsTheTokenizerUnlessThereIsNone) {
  ASSERT_TRUE(Write(path_, 65, {1, 2}).ok());
  EXPECT_EQ(TokenFile::Open(path_, 0)->tokenizer_digest(), "");
  const std::string digest = std::string(62, '0') + "aF";
  absl::StatusOr<TokenFileWriter> writer =
      TokenFileWriter::Create(path_, {.vocabulary = 65, .tokenizer_digest = digest});
  ASSERT_TRUE(writer->Append(std::vector<int32_t>{1, 2}).ok() && writer->Finish().ok() &&
              writer->Publish().ok());
  EXPECT_EQ(TokenFile::Open(path_, 0)->tokenizer_digest(), std::string(62, '0') + "af");
  EXPECT_EQ(ReadBytes(path_).substr(40, 32), std::string(31, '\0') + "\xAF");
}

TEST_F(TokenFileTest, RawLayoutIsIdsOnly) {
  absl::StatusOr<TokenFileWriter> writer =
      TokenFileWriter::Create(path_, {.vocabulary = 70000, .layout = TokenLayout::kRaw});
  ASSERT_TRUE(writer->Append(std::vector<int32_t>{1, 69999}).ok() && writer->Finish().ok() &&
              writer->Publish().ok());
  EXPECT_EQ(writer->bytes(), 8);
  EXPECT_EQ(ReadBytes(path_), BytesOf<uint32_t>({1, 69999}));
}

TEST_F(TokenFileTest, BothLlmCLayouts) {
  WriteBytes(path_, LlmCBytes(20240520, 1, 2, BytesOf<uint16_t>({5, 50256})));
  EXPECT_THAT(ReadAll(*TokenFile::Open(path_, kGpt2)), ElementsAre(5, 50256));
  WriteBytes(path_, LlmCBytes(20240801, 7, 2, BytesOf<uint32_t>({5, 128255})));
  EXPECT_THAT(ReadAll(*TokenFile::Open(path_, 128256)), ElementsAre(5, 128255));
}

TEST_F(TokenFileTest, RawWidthFollowsTheVocabulary) {
  WriteBytes(path_, BytesOf<uint32_t>({7, 70000}));
  EXPECT_THAT(ReadAll(*TokenFile::Open(path_, 70001)), ElementsAre(7, 70000));
  EXPECT_THAT(ReadAll(*TokenFile::Open(path_, 65536)), ElementsAre(7, 0, 4464, 1));
}

TEST_F(TokenFileTest, IdsNeedTheWidthOfTheVocabulary) {
  EXPECT_EQ(TokenWidth(65536), 2);
  EXPECT_EQ(TokenWidth(65537), 4);
  ASSERT_TRUE(Write(path_, 70001, {65535, 65536, 70000}).ok());
  const absl::StatusOr<TokenFile> file = TokenFile::Open(path_, 70001);
  EXPECT_EQ(file->width(), 4);
  EXPECT_THAT(ReadAll(*file), ElementsAre(65535, 65536, 70000));
  ExpectOneLine(Write(folder_.File("narrow.bin"), 70001, {1}, 2),
                {"narrow.bin", "70001", "16 bits", "32 bits"});
  EXPECT_THAT(folder_.Names(), ElementsAre("t.bin"));
}

TEST_F(TokenFileTest, WriterRefusesIdsOutsideTheVocabularyAndLeavesNothing) {
  ExpectOneLine(Write(path_, 3, {0, 1, 3}), {"position 2", "id 3", "vocabulary of 3"});
  ExpectOneLine(Write(path_, 3, {-1}), {"id -1"});
  EXPECT_TRUE(folder_.Names().empty());
}

TEST_F(TokenFileTest, SizesThatCannotBe) {
  ExpectOneLine(OpenStatus(""), {"t.bin", "empty", "0 bytes"});
  ExpectOneLine(OpenStatus(std::string(17, 'a')), {"t.bin", "17 bytes", "of 2 bytes"});
  ExpectOneLine(OpenStatus(std::string(18, 'a'), 100000), {"18 bytes", "of 4 bytes"});
  ExpectOneLine(OpenStatus(LlmCBytes(20240520, 1, 0, "")), {"0 tokens"});
  ExpectOneLine(OpenStatus(LlmCBytes(20240520, 1, 3, "abcdefgh")),
                {"promises 3 tokens", "1030 bytes", "holds 4 tokens", "1032 bytes"});
  ExpectOneLine(OpenStatus(LlmCBytes(20240520, 1, 3, "abcdefg")), {"promises 3 tokens"});
  ExpectOneLine(OpenStatus(LlmCBytes(20240520, 1, 3, "").substr(0, 600)),
                {"600 bytes", "llm.c header", "1024"});
  ExpectOneLine(OpenStatus(LlmCBytes(20240520, 2, 1, "ab")), {"version 2", "version 1"});
}

TEST_F(TokenFileTest, DamagedHeadersOfOurs) {
  ASSERT_TRUE(Write(path_, 65, {1, 2, 64, 0}).ok());
  const std::string good = ReadBytes(path_);
  const auto with = [&](size_t at, const std::string& bytes) {
    std::string changed = good;
    changed.replace(at, bytes.size(), bytes);
    return changed;
  };
  ExpectOneLine(OpenStatus(with(8, BytesOf<uint32_t>({9}))), {"version 9"});
  ExpectOneLine(OpenStatus(with(12, BytesOf<uint32_t>({3}))), {"3 bytes per token"});
  ExpectOneLine(OpenStatus(with(12, BytesOf<uint32_t>({258}))), {"258 bytes per token"});
  ExpectOneLine(OpenStatus(with(16, BytesOf<uint64_t>({~uint64_t{0}}))),
                {"promises 18446744073709551615 tokens", "holds 4"});
  ExpectOneLine(OpenStatus(with(16, BytesOf<uint64_t>({uint64_t{1} << 63}))), {"promises"});
  ExpectOneLine(OpenStatus(with(32, BytesOf<uint64_t>({65}))), {"largest id", "65"});
  ExpectOneLine(OpenStatus(good + "x"), {"promises 4 tokens", "1033 bytes"});
}

TEST_F(TokenFileTest, IdsOutsideTheVocabulary) {
  WriteBytes(path_, BytesOf<uint16_t>({15496, 995, 50257, 60000, 65535, 262}));
  const absl::StatusOr<TokenFile> file = TokenFile::Open(path_, kGpt2);
  ASSERT_TRUE(file.ok());
  ExpectOneLine(file->CheckIds(kGpt2), {"t.bin", "position 2", "id 50257", "vocabulary of 50257"});
  EXPECT_TRUE(file->CheckIds(65536).ok());
  WriteBytes(path_, BytesOf<uint32_t>({1, 0xFFFFFFFF}));
  ExpectOneLine(TokenFile::Open(path_, 100000)->CheckIds(100000), {"position 1", "id 4294967295"});
}

TEST_F(TokenFileTest, NoSuchFileAndFolders) {
  ExpectOneLine(TokenFile::Open(folder_.File("none.bin"), 1).status(), {"none.bin"});
  ExpectOneLine(TokenFile::Open(folder_.path(), 1).status(), {folder_.path()});
}

TEST_F(TokenFileTest, FileThatShrinksUnderTheReaderIsAnError) {
  WriteBytes(path_, BytesOf<uint16_t>({1, 2, 3, 4}));
  const absl::StatusOr<TokenFile> file = TokenFile::Open(path_, 10);
  std::filesystem::resize_file(path_, 4);
  std::vector<int32_t> ids(4);
  ExpectOneLine(file->Read(0, ids), {"t.bin", "shorter"});
}

}  // namespace
}  // namespace tost::data
