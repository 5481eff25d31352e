// From text to token ids and back: characters or byte pairs, one type for all that reads text.
#ifndef TOST_DATA_TOKENIZER_H_
#define TOST_DATA_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/byte_pair_encoding.h"
#include "data/character_vocabulary.h"

namespace tost::data {

// What a folder of token files says of its tokenizer: Tokenizer::ToJson in this file.
inline constexpr char kTokenizerFile[] = "vocabulary.json";

// "<|endoftext|>" inside a text: plain characters, or the id that separates documents.
enum class SpecialTokens { kPlain, kRecognised };

// Cheap to copy.
class Tokenizer {
 public:
  static Tokenizer OfCharacters(CharacterVocabulary vocabulary);
  static Tokenizer Gpt2();
  static Tokenizer OfBytePairs(BytePairEncoding encoding);
  // "gpt2", or a folder with the tables of another byte-pair encoding.
  static absl::StatusOr<Tokenizer> Named(const std::string& name_or_folder);

  // The JSON that folders of token files and checkpoints hold: a character vocabulary
  // (CharacterVocabulary::ToJson), {"format": "tost tokenizer", "version": 1, "name": "gpt2",
  // "digest": "…"}, or, for other byte pairs, the same with name "byte_pairs" and both tables as
  // strings "tokens" and "merges". A digest that the tables do not have is an error.
  static absl::StatusOr<Tokenizer> FromJson(absl::string_view json, absl::string_view source);
  static absl::StatusOr<Tokenizer> Load(const std::string& path);
  std::string ToJson() const;

  const std::string& name() const { return name_; }      // "characters", "gpt2", "byte_pairs"
  const std::string& digest() const { return digest_; }  // SHA-256 in hexadecimal
  int64_t vocabulary() const;                            // ids are below it
  std::optional<int32_t> end_of_text() const;            // what separates documents, if anything
  // The byte pairs, or null for characters.
  const BytePairEncoding* byte_pairs() const;

  // Appends the ids of a text. Only characters can fail: one outside the vocabulary, or bytes that
  // are no UTF-8; `source` says what was being encoded ("--prompt").
  absl::Status Encode(absl::string_view text, absl::string_view source, std::vector<int32_t>& ids,
                      SpecialTokens special = SpecialTokens::kPlain) const;
  // The text's bytes. A token may hold part of a character. CHECKs that ids are below vocabulary().
  std::string Decode(std::span<const int32_t> ids) const;

 private:
  using Characters = std::shared_ptr<const CharacterVocabulary>;
  using BytePairs = std::shared_ptr<const BytePairEncoding>;
  Tokenizer(std::string name, std::string digest, std::variant<Characters, BytePairs> model);

  std::string name_;
  std::string digest_;
  std::variant<Characters, BytePairs> model_;
};

}  // namespace tost::data

#endif  // TOST_DATA_TOKENIZER_H_
