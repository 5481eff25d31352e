#include "data/prepare_characters.h"

#include <chrono>
#include <string>
#include <vector>

#include "data/character_vocabulary.h"
#include "data/token_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"

namespace tost::data {
namespace {

using testing::ElementsAre;

class PrepareCharactersTest : public testing::Test {
 protected:
  absl::StatusOr<PreparedCharacters> Prepare(absl::string_view text, double fraction = 0.1) {
    WriteBytes(in_.File("text.txt"), text);
    return PrepareCharacters({.text = in_.File("text.txt"),
                              .folder = out_.path(),
                              .validation_fraction = fraction,
                              .overwrite = overwrite_});
  }

  // The text of a split as it was written.
  std::string Decoded(const std::string& name) {
    const auto vocabulary = CharacterVocabulary::Load(out_.File("vocabulary.json"));
    EXPECT_TRUE(vocabulary.ok()) << vocabulary.status();
    const auto file = TokenFile::Open(out_.File(name), vocabulary->size());
    EXPECT_TRUE(file.ok()) << file.status();
    std::vector<int32_t> ids(static_cast<size_t>(file->size()));
    EXPECT_TRUE(file->Read(0, ids).ok());
    return vocabulary->Decode(ids);
  }

  TemporaryFolder in_;
  TemporaryFolder out_;
  bool overwrite_ = false;
};

TEST_F(PrepareCharactersTest, TinyShakespeareIsNanoGptsSplit) {
  const std::string path = std::string(TOST_SOURCE_DIR) + "/data/samples/tinyshakespeare.txt";
  const absl::StatusOr<PreparedCharacters> prepared =
      PrepareCharacters({.text = path, .folder = out_.path()});
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_EQ(prepared->train_tokens, 1003854);
  EXPECT_EQ(prepared->validation_tokens, 111540);
  EXPECT_EQ(prepared->vocabulary, 65);
  EXPECT_THAT(out_.Names(), ElementsAre("train.bin", "val.bin", "vocabulary.json"));
  EXPECT_TRUE(Decoded("train.bin") + Decoded("val.bin") == ReadBytes(path));
}

TEST_F(PrepareCharactersTest, CharactersAreCountedNotBytes) {
  ASSERT_TRUE(Prepare("éééééééééa", 0.2).ok());
  EXPECT_EQ(Decoded("train.bin"), "éééééééé");
  EXPECT_EQ(Decoded("val.bin"), "éa");
}

TEST_F(PrepareCharactersTest, UnusualTextsComeBackWhole) {
  overwrite_ = true;
  const std::string texts[] = {
      std::string("First line.\nSecond\0line with \0\0 NULs.\n\0\nLast line.\n", 50),
      "no final newline\nlast",
      "crlf\r\nline ends\r\n",
      "\xEF\xBB\xBFwith a byte order mark\n",
      "\n\n\n\n\n",
      "before <|endoftext|> after"};
  for (const std::string& text : texts) {
    const absl::StatusOr<PreparedCharacters> prepared = Prepare(text, 0.4);
    ASSERT_TRUE(prepared.ok()) << prepared.status();
    EXPECT_EQ(Decoded("train.bin") + Decoded("val.bin"), text);
  }
}

TEST_F(PrepareCharactersTest, OneLineOfFiveMegabytes) {
  std::string text;
  while (text.size() < 5000000) text += "ordinary wörds without any break ";
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(Prepare(text).ok());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_TRUE(Decoded("train.bin") + Decoded("val.bin") == text);
}

TEST_F(PrepareCharactersTest, TextsThatAreNotUtf8) {
  ExpectOneLine(Prepare("Valid.\nBroken: \xFF\xFE").status(), {"text.txt", "offset 15 "});
  ExpectOneLine(Prepare("cut: \xE2\x82").status(), {"text.txt", "offset 5 "});
  ExpectOneLine(Prepare("\xFF\xFEh").status(), {"text.txt", "UTF-16"});
  ExpectOneLine(Prepare(std::string(3000000, 'a') + "\xFF" + std::string(10, 'b')).status(),
                {"offset 3000000 "});
  EXPECT_TRUE(out_.Names().empty());
}

TEST_F(PrepareCharactersTest, SplitsThatWouldBeEmpty) {
  ExpectOneLine(Prepare("").status(), {"text.txt", "empty"});
  ExpectOneLine(Prepare("a").status(), {"text.txt", "1 characters", "0 for training"});
  ExpectOneLine(Prepare("abc", 1e-18).status(), {"3 for training", "0 for validation"});
  ExpectOneLine(Prepare("abc", 0).status(), {"validation fraction"});
  ExpectOneLine(Prepare("abc", 1).status(), {"validation fraction"});
  EXPECT_TRUE(out_.Names().empty());
}

TEST_F(PrepareCharactersTest, DoesNotOverwriteUnasked) {
  ASSERT_TRUE(Prepare("the first text").ok());
  ExpectOneLine(Prepare("a second text, longer").status(), {"train.bin exists", "--overwrite"});
  EXPECT_EQ(Decoded("train.bin") + Decoded("val.bin"), "the first text");
  overwrite_ = true;
  ASSERT_TRUE(Prepare("a second text, longer").ok());
  EXPECT_EQ(Decoded("train.bin") + Decoded("val.bin"), "a second text, longer");
  EXPECT_THAT(out_.Names(), ElementsAre("train.bin", "val.bin", "vocabulary.json"));
}

TEST_F(PrepareCharactersTest, PathsThatDoNotServe) {
  ExpectOneLine(PrepareCharacters({.text = "/no/such.txt", .folder = out_.path()}).status(),
                {"/no/such.txt"});
  ExpectOneLine(PrepareCharacters({.text = in_.path(), .folder = out_.path()}).status(),
                {in_.path()});
  WriteBytes(in_.File("file"), "x");
  WriteBytes(in_.File("text.txt"), "some text to prepare");
  ExpectOneLine(
      PrepareCharacters({.text = in_.File("text.txt"), .folder = in_.File("file/below")}).status(),
      {in_.File("file/below")});
}

}  // namespace
}  // namespace tost::data
