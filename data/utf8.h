// UTF-8 to code points and back; nothing is ever replaced or dropped.
#ifndef TOST_DATA_UTF8_H_
#define TOST_DATA_UTF8_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tost::data {

inline constexpr char32_t kCodePoints = 0x110000;  // of Unicode

// Length of the character at the front of a text that is not empty, and its code point. Length 0
// when the bytes are cut, overlong, a surrogate, beyond U+10FFFF or no beginning of a character.
std::pair<size_t, char32_t> FirstCodePoint(absl::string_view text);

void AppendUtf8(char32_t code, std::string& out);

// Decodes a text that arrives in pieces. Errors name `source` and the byte offset in the whole
// text, or say that it is UTF-16. A UTF-8 byte order mark is kept: it is the character U+FEFF. NUL
// is an ordinary character.
class Utf8Decoder {
 public:
  // `offset` is that of the first bytes in the text, when what was before them is known to be good.
  explicit Utf8Decoder(absl::string_view source, int64_t offset = 0)
      : source_(source), offset_(offset) {}

  // Appends to `out` the characters that `bytes` completes.
  absl::Status Append(absl::string_view bytes, std::u32string& out);
  // The text is over.
  absl::Status Finish(std::u32string& out);

 private:
  absl::Status Decode(size_t keep, std::u32string& out);

  std::string source_;
  std::string pending_;  // may be the beginning of a character
  int64_t offset_;       // of pending_ in the text
};

// The code points of a whole text.
absl::StatusOr<std::u32string> DecodeUtf8(absl::string_view text, absl::string_view source);

}  // namespace tost::data

#endif  // TOST_DATA_UTF8_H_
