#include "data/utf8.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"

namespace tost::data {
namespace {

TEST(Utf8, EveryCodePointComesBack) {
  std::u32string all;
  std::string text;
  for (char32_t code = 0; code < kCodePoints; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    all.push_back(code);
    AppendUtf8(code, text);
  }
  const absl::StatusOr<std::u32string> decoded = DecodeUtf8(text, "all");
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_TRUE(*decoded == all);
}

TEST(Utf8, PiecesMayCutCharacters) {
  const std::string text = "aé€😀z";
  for (size_t length = 1; length <= text.size(); ++length) {
    Utf8Decoder decoder("pieces");
    std::u32string out;
    for (size_t at = 0; at < text.size(); at += length) {
      ASSERT_TRUE(decoder.Append(absl::string_view(text).substr(at, length), out).ok());
    }
    ASSERT_TRUE(decoder.Finish(out).ok());
    EXPECT_EQ(out, U"aé€😀z") << length;
  }
}

TEST(Utf8, FaultsNameTheByteOffset) {
  struct Fault {
    const char* what;
    std::string bytes;
    int offset;
  };
  const Fault faults[] = {
      {"never a byte of UTF-8", "ab\xFFz", 2},        {"continuation without a lead", "a\x80", 1},
      {"lead without continuation", "\xC3(", 0},      {"overlong slash", "abc\xC0\xAF", 3},
      {"overlong of three bytes", "\xE0\x80\xAF", 0}, {"surrogate", "x\xED\xA0\x80y", 1},
      {"beyond U+10FFFF", "\xF4\x90\x80\x80", 0},     {"five bytes", "\xF8\x88\x80\x80\x80", 0},
      {"cut at the end", "character: \xE2\x82", 11},  {"Latin-1", "caf\xE9.\nValid.", 3}};
  for (const Fault& fault : faults) {
    SCOPED_TRACE(fault.what);
    ExpectOneLine(DecodeUtf8(fault.bytes, "t.txt").status(),
                  {"t.txt is not UTF-8", absl::StrCat("at offset ", fault.offset, " ")});
  }
}

TEST(Utf8, OffsetsCountFromTheBeginningOfTheText) {
  Utf8Decoder decoder("t.txt");
  std::u32string out;
  ASSERT_TRUE(decoder.Append(std::string(1000, 'a'), out).ok());
  ASSERT_TRUE(decoder.Append("é", out).ok());
  ExpectOneLine(decoder.Append("\xFFzzzz", out), {"offset 1002 "});
}

TEST(Utf8, Utf16IsNamedAsSuch) {
  ExpectOneLine(DecodeUtf8(absl::string_view("\xFF\xFEh\0i\0", 6), "t.txt").status(),
                {"t.txt is UTF-16"});
  ExpectOneLine(DecodeUtf8(absl::string_view("\xFE\xFF\0h", 4), "t.txt").status(),
                {"t.txt is UTF-16"});
}

TEST(Utf8, NulAndByteOrderMarkAreCharacters) {
  EXPECT_EQ(*DecodeUtf8(absl::string_view("a\0b", 3), "t"), std::u32string(U"a\0b", 3));
  EXPECT_EQ(*DecodeUtf8("\xEF\xBB\xBFhi", "t"), U"\uFEFFhi");
}

}  // namespace
}  // namespace tost::data
