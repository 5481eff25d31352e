#include "data/text_pieces.h"

#include <array>

#include "data/utf8.h"
#include "unicode/uchar.h"

namespace tost::data {
namespace {

using enum CharacterClass;

// Unicode White_Space, written out: libraries count U+0085, U+180E and U+FEFF differently.
constexpr bool IsWhiteSpace(char32_t code) {
  return (code >= 0x09 && code <= 0x0D) || code == 0x20 || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

constexpr char32_t kAsciiCodes = 0x80;

constexpr std::array<CharacterClass, kAsciiCodes> AsciiClasses() {
  std::array<CharacterClass, kAsciiCodes> classes{};
  for (char32_t code = 0; code < kAsciiCodes; ++code) {
    const bool letter = (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z');
    const bool digit = code >= '0' && code <= '9';
    classes[code] = letter ? kLetter : digit ? kNumber : IsWhiteSpace(code) ? kSpace : kOther;
  }
  return classes;
}

constexpr std::array<CharacterClass, kAsciiCodes> kAsciiClasses = AsciiClasses();

CharacterClass ClassOf(char32_t code) {
  if (IsWhiteSpace(code)) return kSpace;
  const uint32_t category = U_MASK(u_charType(static_cast<UChar32>(code)));
  return (category & U_GC_L_MASK) != 0 ? kLetter : (category & U_GC_N_MASK) != 0 ? kNumber : kOther;
}

// The length of the contraction at the front of a text that begins with an apostrophe, or 0.
size_t Contraction(absl::string_view text) {
  if (text.size() < 2) return 0;
  const char first = text[1];
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if (text.size() < 3) return 0;
  const char second = text[2];
  const bool found = (first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
                     (first == 'l' && second == 'l');
  return found ? 3 : 0;
}

// Where the characters of class `type` that begin at `at` end.
size_t RunEnd(absl::string_view text, size_t at, CharacterClass type) {
  while (at < text.size()) {
    const Character character = FirstCharacter(text.substr(at));
    if (character.type != type) break;
    at += character.length;
  }
  return at;
}

// White space at the front, without its last character when something else follows that one: the
// last space belongs to the next word.
size_t WhiteSpacePiece(absl::string_view text) {
  size_t last = 0, end = 0;
  while (end < text.size()) {
    const Character character = FirstCharacter(text.substr(end));
    if (character.type != kSpace) return last > 0 ? last : end;
    last = end;
    end += character.length;
  }
  return end;
}

}  // namespace

Character FirstCharacter(absl::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < kAsciiCodes) return {1, kAsciiClasses[lead]};
  const auto [length, code] = FirstCodePoint(text);
  return length == 0 ? Character{1, kOther} : Character{length, ClassOf(code)};
}

size_t FirstPiece(absl::string_view text) {
  if (text[0] == '\'') {
    if (const size_t length = Contraction(text); length > 0) return length;
  }
  const size_t begin = text[0] == ' ' && text.size() > 1 ? 1 : 0;
  const Character first = FirstCharacter(text.substr(begin));
  if (first.type == kSpace) return WhiteSpacePiece(text);
  return RunEnd(text, begin + first.length, first.type);
}

}  // namespace tost::data
