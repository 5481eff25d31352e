#include "data/text_pieces.h"

#include <random>
#include <string>
#include <vector>

#include "data/utf8.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/random_text.h"

namespace tost::data {
namespace {

using testing::ElementsAre;
using enum CharacterClass;

std::vector<std::string> Pieces(absl::string_view text) {
  std::vector<std::string> pieces;
  while (!text.empty()) {
    const size_t length = FirstPiece(text);
    pieces.emplace_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return pieces;
}

// The pattern, alternative by alternative over whole characters, as a regex engine tries them.
class Pattern {
 public:
  explicit Pattern(absl::string_view text) {
    while (!text.empty()) {
      const Character character = FirstCharacter(text);
      characters_.emplace_back(text.substr(0, character.length));
      classes_.push_back(character.type);
      text.remove_prefix(character.length);
    }
  }

  std::vector<std::string> Matches() const {
    std::vector<std::string> pieces;
    for (size_t at = 0; at < characters_.size();) {
      std::string piece;
      for (const size_t end = MatchEnd(at); at < end; ++at) piece += characters_[at];
      pieces.push_back(piece);
    }
    return pieces;
  }

 private:
  size_t MatchEnd(size_t at) const {
    for (const std::string suffix : {"s", "t", "re", "ve", "m", "ll", "d"}) {
      std::string here;
      for (size_t i = at; i < characters_.size() && i <= at + suffix.size(); ++i) {
        here += characters_[i];
      }
      if (here == "'" + suffix) return at + here.size();
    }
    for (const CharacterClass type : {kLetter, kNumber, kOther}) {
      for (const size_t begin : {characters_[at] == " " ? at + 1 : at, at}) {
        if (RunEnd(begin, type) > begin) return RunEnd(begin, type);
      }
    }
    const size_t end = RunEnd(at, kSpace);
    if (end == characters_.size() || end == at + 1) return end;
    return end - 1;  // \s+(?!\S) gives one character back
  }

  size_t RunEnd(size_t at, CharacterClass type) const {
    while (at < classes_.size() && classes_[at] == type) ++at;
    return at;
  }

  std::vector<std::string> characters_;
  std::vector<CharacterClass> classes_;
};

TEST(TextPieces, SpacesGoWithWhatFollows) {
  EXPECT_THAT(Pieces("two words"), ElementsAre("two", " words"));
  EXPECT_THAT(Pieces(" a  b   c "), ElementsAre(" a", " ", " b", "  ", " c", " "));
  EXPECT_THAT(Pieces("a\n\nb\n c"), ElementsAre("a", "\n", "\n", "b", "\n", " c"));
  EXPECT_THAT(Pieces("a \n"), ElementsAre("a", " \n"));
  EXPECT_THAT(Pieces("x\xC2\xA0y"), ElementsAre("x", "\xC2\xA0", "y"));  // no-break space
  EXPECT_THAT(Pieces(" 12 !? 3a"), ElementsAre(" 12", " !?", " 3", "a"));
}

TEST(TextPieces, ContractionsAreLowerCase) {
  EXPECT_THAT(Pieces("don't we'll I've"), ElementsAre("don", "'t", " we", "'ll", " I", "'ve"));
  EXPECT_THAT(Pieces("IT'S"), ElementsAre("IT", "'", "S"));
  EXPECT_THAT(Pieces("'r 're 'l"), ElementsAre("'", "r", " '", "re", " '", "l"));
  EXPECT_THAT(Pieces("'rex"), ElementsAre("'re", "x"));
  EXPECT_THAT(Pieces("!'s"), ElementsAre("!'", "s"));
  EXPECT_THAT(Pieces("'"), ElementsAre("'"));
  EXPECT_THAT(Pieces("'l"), ElementsAre("'", "l"));
}

TEST(TextPieces, ClassesOfCharacters) {
  const auto type = [](char32_t code) {
    std::string text;
    AppendUtf8(code, text);
    const Character character = FirstCharacter(text);
    EXPECT_EQ(character.length, text.size());
    return character.type;
  };
  for (const char32_t code : {U'a', U'Z', U'é', U'ß', U'ж', U'日', U'ª', U'ǅ', U'ʰ'}) {
    EXPECT_EQ(type(code), kLetter) << static_cast<uint32_t>(code);
  }
  for (const char32_t code : {U'0', U'9', U'²', U'½', U'Ⅷ', U'٣', U'〇'}) {
    EXPECT_EQ(type(code), kNumber) << static_cast<uint32_t>(code);
  }
  const char32_t spaces[] = {0x09,   0x0A,   0x0B,   0x0C,   0x0D,   ' ',    0x85,   0xA0,
                             0x1680, 0x2000, 0x200A, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000};
  for (const char32_t code : spaces) EXPECT_EQ(type(code), kSpace) << static_cast<uint32_t>(code);
  const char32_t others[] = {0,      0x1C,   0x1F,   '_',    0x7F,   0x0301,
                             0x180E, 0x200B, 0x2060, 0xFEFF, 0xFFFD, 0x1F600};
  for (const char32_t code : others) EXPECT_EQ(type(code), kOther) << static_cast<uint32_t>(code);
}

TEST(TextPieces, EveryByteOfAFaultySequenceIsACharacter) {
  for (const absl::string_view bytes : {"\x80", "\xFF", "\xC3", "\xE2\x82", "\xED\xA0\x80",
                                        "\xC0\xAF", "\xF4\x90\x80\x80", "\xC3("}) {
    const Character character = FirstCharacter(bytes);
    EXPECT_EQ(character.length, 1u);
    EXPECT_EQ(character.type, kOther);
  }
  EXPECT_THAT(Pieces("a\xFF\xFE"
                     "b \x80"),
              ElementsAre("a", "\xFF\xFE", "b", " \x80"));
}

TEST(TextPieces, AreTheMatchesOfThePattern) {
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    const std::string text = RandomText(random, 1 + random() % 24);
    ASSERT_EQ(Pieces(text), Pattern(text).Matches()) << testing::PrintToString(text);
  }
}

}  // namespace
}  // namespace tost::data
