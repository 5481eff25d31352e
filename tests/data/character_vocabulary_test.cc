#include "data/character_vocabulary.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"

namespace tost::data {
namespace {

using testing::ElementsAre;

CharacterVocabulary Of(absl::string_view text) {
  return CharacterVocabulary::Of(*DecodeUtf8(text, "test"));
}

TEST(CharacterVocabulary, IdsAreRanksOfCodePoints) {
  const CharacterVocabulary vocabulary = Of("hello, ö!");
  EXPECT_EQ(vocabulary.size(), 8);  // " !,ehloö"
  EXPECT_THAT(*vocabulary.Encode(" !,ehloö", "test"), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  const std::vector<int32_t> ids{4, 3, 5, 5, 6};
  EXPECT_EQ(vocabulary.Decode(ids), "hello");
}

TEST(CharacterVocabulary, JsonRoundTripKeepsOddCharacters) {
  const std::string text("a\0\n\"\\/\x7f é€😀\xEF\xBB\xBF", 20);
  const CharacterVocabulary vocabulary = Of(text);
  const absl::StatusOr<CharacterVocabulary> read =
      CharacterVocabulary::FromJson(vocabulary.ToJson(), "v.json");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->size(), vocabulary.size());
  EXPECT_EQ(read->Decode(*vocabulary.Encode(text, "test")), text);
}

TEST(CharacterVocabulary, UnknownCharacterIsShownWithItsPosition) {
  const CharacterVocabulary vocabulary = Of("ab ");
  ExpectOneLine(vocabulary.Encode("ab é", "prompt").status(),
                {"prompt", "'é' (U+00E9)", "position 3", "vocabulary of 3 characters"});
  ExpectOneLine(vocabulary.Encode("a\nb", "prompt").status(), {"U+000A", "position 1"});
}

TEST(CharacterVocabulary, FilesThatAreNoVocabulary) {
  const auto status = [](absl::string_view json) {
    return CharacterVocabulary::FromJson(json, "v.json").status();
  };
  ExpectOneLine(status(""), {"v.json is not a character vocabulary", "not a JSON object"});
  ExpectOneLine(status("[1]"), {"not a JSON object"});
  ExpectOneLine(status("{\"format\":"), {"not a JSON object"});
  ExpectOneLine(status("{}"), {"format"});
  const std::string front = R"({"format":"tost characters","version":1,"characters":)";
  EXPECT_TRUE(status(front + R"(["a"]})").ok());
  ExpectOneLine(status(front + "[]}"), {"no characters"});
  ExpectOneLine(status(front + R"(["a","bc"]})"), {"entry 1 is not one character"});
  ExpectOneLine(status(front + R"(["a",7]})"), {"entry 1 is not one character"});
  ExpectOneLine(status(front + R"([""]})"), {"entry 0 is not one character"});
  ExpectOneLine(status(front + R"(["a","a"]})"), {"twice"});
  ExpectOneLine(status(R"({"format":"tost characters","version":2,"characters":["a"]})"),
                {"version is not 1"});
  ExpectOneLine(status(std::string(200000, '[')), {"not a JSON object"});
  ExpectOneLine(CharacterVocabulary::Load("/no/such/v.json").status(), {"/no/such/v.json"});
}

}  // namespace
}  // namespace tost::data
