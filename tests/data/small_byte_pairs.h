// A byte-pair tokenizer for tests: the 256 bytes, " t", " th" and " the", and "<|endoftext|>".
#ifndef TOST_TESTS_DATA_SMALL_BYTE_PAIRS_H_
#define TOST_TESTS_DATA_SMALL_BYTE_PAIRS_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "autograd/base/errors.h"
#include "data/tokenizer.h"
#include "data/utf8.h"

namespace tost::data {

inline constexpr int64_t kSmallBytePairs = 260;
inline constexpr int32_t kSmallThe = 258;  // " the"
inline constexpr int32_t kSmallEndOfText = 259;

inline Tokenizer SmallBytePairs() {
  // The printable form of encoder.json: bytes that are no visible character stand as U+0100 on.
  std::string tokens = "{";
  int32_t id = 0;
  for (char32_t byte = 0, hidden = 0x100; byte < 256; ++byte) {
    const bool visible = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
    std::string key;
    AppendUtf8(visible ? byte : hidden++, key);
    const char* escape = key == "\"" || key == "\\" ? "\\" : "";
    absl::StrAppend(&tokens, "\"", escape, key, "\": ", id++, ", ");
  }
  const std::string space = "\u0120";
  for (const char* token : {"t", "th", "the"}) {
    absl::StrAppend(&tokens, "\"", space, token, "\": ", id++, ", ");
  }
  absl::StrAppend(&tokens, "\"<|endoftext|>\": ", id, "}");
  const std::string merges = absl::StrCat(space, " t\n", space, "t h\n", space, "th e\n");
  return Tokenizer::OfBytePairs(TOST_CHECK_VALUE(BytePairEncoding::Create(
      {.tokens = tokens, .merges = merges, .tokens_source = "tokens", .merges_source = "merges"})));
}

}  // namespace tost::data

#endif  // TOST_TESTS_DATA_SMALL_BYTE_PAIRS_H_
