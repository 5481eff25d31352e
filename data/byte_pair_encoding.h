// Byte-level byte-pair encoding, the tokenizer of GPT-2 (openai/gpt-2, src/encoder.py).
//
// A text is cut into pieces by the pattern
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// and each piece, as bytes, is merged pair by pair, the pair that comes first in the list of merges
// first, until no pair of it is in the list. \s is Unicode White_Space. Letters and digits are
// those of ICU.
//
// Encoding works on bytes: UTF-8 is decoded only to classify characters, and every byte of a
// faulty sequence is a character of its own that is neither letter, digit nor space. So
// Decode(Encode(bytes)) == bytes for all bytes.
#ifndef TOST_DATA_BYTE_PAIR_ENCODING_H_
#define TOST_DATA_BYTE_PAIR_ENCODING_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tost::data {

class BytePairEncoding {
 public:
  // The two tables of a tokenizer as texts: `tokens`, JSON from token to id in the printable form
  // of encoder.json (vocab.json at Hugging Face), and `merges`, one pair a line after an optional
  // "#version" line, as vocab.bpe (merges.txt). Errors name the source and the line, position,
  // token or id: ids that are not 0 … n − 1, a merge of what is no token, or of a token that only a
  // later merge makes.
  struct Tables {
    std::string tokens;
    std::string merges;
    std::string tokens_source;  // names the text in errors
    std::string merges_source;
  };
  static absl::StatusOr<BytePairEncoding> Create(Tables tables);
  // The tables in `folder`: encoder.json and vocab.bpe, or vocab.json and merges.txt.
  static absl::StatusOr<BytePairEncoding> Load(const std::string& folder);
  // GPT-2's 50257 tokens, whose tables are part of the program.
  static const BytePairEncoding& Gpt2();

  BytePairEncoding(BytePairEncoding&&) noexcept;
  BytePairEncoding& operator=(BytePairEncoding&&) noexcept;
  ~BytePairEncoding();

  int64_t size() const;
  // The id of "<|endoftext|>", where the table has it.
  std::optional<int32_t> end_of_text() const;
  // SHA-256, in hexadecimal, of what decides the ids: the bytes of all tokens and the merges.
  const std::string& digest() const;
  const Tables& tables() const;

  // Appends the ids of a text. "<|endoftext|>" in it is plain text. Time is near-linear in the
  // length whatever the text; several threads may encode at once.
  void Encode(absl::string_view text, std::vector<int32_t>& ids) const;
  // The same with every "<|endoftext|>" as the id end_of_text().
  void EncodeWithSpecialTokens(absl::string_view text, std::vector<int32_t>& ids) const;

  // The bytes of a token. CHECKs that id is in [0, size()).
  absl::string_view Bytes(int32_t id) const;
  std::string Decode(std::span<const int32_t> ids) const;

 private:
  struct Model;
  explicit BytePairEncoding(std::unique_ptr<Model> model);
  std::unique_ptr<Model> model_;
};

// The length of the longest front part of `text`, at most `limit` and less than all of it, after
// which it may be cut without changing any id of the whole: between two characters of different
// kinds (letter, digit, white space, other) of which the first is no white space, which goes with
// what follows, and the two are not other and letter, which may be a contraction. 0 when there is
// no such place.
size_t SafeCut(absl::string_view text, size_t limit);

}  // namespace tost::data

#endif  // TOST_DATA_BYTE_PAIR_ENCODING_H_
