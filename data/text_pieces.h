// The pieces that byte-pair encoding cuts a text into before it merges anything.
#ifndef TOST_DATA_TEXT_PIECES_H_
#define TOST_DATA_TEXT_PIECES_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace tost::data {

// What GPT-2's pattern tells characters apart by: \p{L}, \p{N}, \s (Unicode White_Space), the rest.
enum class CharacterClass : uint8_t { kOther, kLetter, kNumber, kSpace };

struct Character {
  size_t length;  // bytes
  CharacterClass type;
};

// The character at the front of a text that is not empty. A byte that begins no character of UTF-8
// is one of kOther by itself.
Character FirstCharacter(absl::string_view text);

// The length of the piece at the front of a text that is not empty: the match there of
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
size_t FirstPiece(absl::string_view text);

}  // namespace tost::data

#endif  // TOST_DATA_TEXT_PIECES_H_
