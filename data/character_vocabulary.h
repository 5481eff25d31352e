// A vocabulary of single characters: the smallest tokenizer there is.
#ifndef TOST_DATA_CHARACTER_VOCABULARY_H_
#define TOST_DATA_CHARACTER_VOCABULARY_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/utf8.h"

namespace tost::data {

// The code points that occur in a text, in ascending order; a character's id is its rank among
// them. Equal to nanoGPT's sorted(set(text)).
class CharacterVocabulary {
 public:
  static CharacterVocabulary Of(const std::u32string& text);

  // The form of vocabulary.json, which is also stored in checkpoints:
  //   {"format": "tost characters", "version": 1, "characters": ["\n", " ", "!", …]}
  // where the position in the list is the id. `source` names the file in errors.
  static absl::StatusOr<CharacterVocabulary> FromJson(absl::string_view json,
                                                      absl::string_view source);
  static absl::StatusOr<CharacterVocabulary> Load(const std::string& path);
  std::string ToJson() const;

  int64_t size() const { return static_cast<int64_t>(characters_.size()); }

  // One id per character. A character outside the vocabulary is an error that shows it and its
  // position; `source` says what was being encoded ("prompt").
  absl::StatusOr<std::vector<int32_t>> Encode(absl::string_view text,
                                              absl::string_view source) const;
  absl::StatusOr<std::vector<int32_t>> Encode(const std::u32string& text,
                                              absl::string_view source) const;

  // The text as UTF-8. CHECKs that every id is in [0, size()).
  std::string Decode(std::span<const int32_t> ids) const;

 private:
  explicit CharacterVocabulary(std::vector<char32_t> characters);

  std::vector<char32_t> characters_;
  absl::flat_hash_map<char32_t, int32_t> ids_;
};

}  // namespace tost::data

#endif  // TOST_DATA_CHARACTER_VOCABULARY_H_
