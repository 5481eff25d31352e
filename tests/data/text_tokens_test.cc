#include "data/text_tokens.h"

#include "data/character_vocabulary.h"
#include "data/utf8.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"

namespace tost::data {
namespace {

// Words, numbers, runs of white space, characters of one to four bytes.
std::string SomeText() {
  std::string text;
  for (int i = 0; i < 300; ++i) {
    text += i % 7 == 0 ? "caf\u00e9 \u65e5\u672c" : "word";
    text += i % 11 == 0 ? " \n\n " : i % 5 == 0 ? "12 3" : " ";
    if (i % 13 == 0) text += "\U0001F600";
  }
  return text;
}

Tokenizer CharactersOf(const std::string& text) {
  return Tokenizer::OfCharacters(CharacterVocabulary::Of(*DecodeUtf8(text, "text")));
}

class TextTokensTest : public testing::Test {
 protected:
  TextTokens Open(const std::string& text, const Tokenizer& tokenizer, size_t piece) {
    WriteBytes(folder_.File("a.txt"), text);
    return *TextTokens::Open(folder_.File("a.txt"), tokenizer, piece);
  }
  TemporaryFolder folder_;
};

TEST_F(TextTokensTest, PiecesGiveTheIdsOfTheWhole) {
  const std::string text = SomeText();
  for (const Tokenizer& tokenizer : {CharactersOf(text), Tokenizer::Gpt2()}) {
    std::vector<int32_t> whole;
    ASSERT_TRUE(tokenizer.Encode(text, "text", whole).ok());
    for (size_t piece : {1u, 2u, 3u, 10u, 1000u, 1000000u}) {
      TextTokens tokens = Open(text, tokenizer, piece);
      std::vector<int32_t> ids;
      absl::StatusOr<bool> more = true;
      while ((more = tokens.Next(ids)).ok() && *more) {
      }
      ASSERT_TRUE(more.ok()) << more.status();
      EXPECT_EQ(ids, whole) << tokenizer.name() << " " << piece;
      EXPECT_EQ(tokens.bytes(), static_cast<int64_t>(text.size()));
      EXPECT_EQ(tokens.Digest(), Sha256Of(text));
    }
  }
}

TEST_F(TextTokensTest, CountsWordsAcrossPieces) {
  TextTokens tokens = Open(" one two\n\n three\tfour five", Tokenizer::Gpt2(), 2);
  std::vector<int32_t> ids;
  while (*tokens.Next(ids)) {
  }
  EXPECT_EQ(tokens.words(), 5);
}

TEST_F(TextTokensTest, EmptyFileHasNoToken) {
  TextTokens tokens = Open("", Tokenizer::Gpt2(), 100);
  std::vector<int32_t> ids;
  EXPECT_FALSE(*tokens.Next(ids));
  EXPECT_TRUE(ids.empty());
  EXPECT_EQ(tokens.Digest(), Sha256Of(""));
}

TEST_F(TextTokensTest, ErrorsNameFileAndPlace) {
  std::vector<int32_t> ids;
  TextTokens unknown = Open("aab\u00e9", CharactersOf("ab"), 100);
  ExpectOneLine(unknown.Next(ids).status(), {"a.txt", "\u00e9", "position 3"});
  TextTokens later = Open("aa\u00e9", CharactersOf("ab"), 2);
  EXPECT_TRUE(*later.Next(ids));
  ExpectOneLine(later.Next(ids).status(), {"a.txt", "from byte 2", "\u00e9", "position 0"});
  for (const std::string bytes : {"ab\xff", "ab\xe2\x82"}) {
    TextTokens invalid = Open(bytes, CharactersOf("ab"), 100);
    ExpectOneLine(invalid.Next(ids).status(), {"a.txt", "2"});
  }
  ExpectOneLine(TextTokens::Open(folder_.File("none"), Tokenizer::Gpt2()).status(), {"none"});
  ExpectOneLine(TextTokens::Open(folder_.path(), Tokenizer::Gpt2()).status(), {folder_.path()});
}

}  // namespace
}  // namespace tost::data
