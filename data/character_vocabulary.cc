#include "data/character_vocabulary.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "autograd/base/errors.h"
#include "data/atomic_file.h"
#include "nlohmann/json.hpp"

namespace tost::data {
namespace {

constexpr char kFormat[] = "tost characters";
constexpr int kVersion = 1;

// The character in quotes, where it can be shown, and its code point: `'é' (U+00E9)`.
std::string Shown(char32_t code) {
  std::string glyph;
  const bool control = code < 0x20 || (code >= 0x7F && code < 0xA0);
  if (!control) AppendUtf8(code, glyph);
  const std::string number = absl::StrFormat("U+%04X", static_cast<uint32_t>(code));
  return control ? number : absl::StrCat("'", glyph, "' (", number, ")");
}

absl::Status NotAVocabulary(absl::string_view source, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(source, " is not a character vocabulary: ", why,
                                                 "; prepare the data again to write it anew"));
}

}  // namespace

CharacterVocabulary::CharacterVocabulary(std::vector<char32_t> characters)
    : characters_(std::move(characters)) {
  for (size_t i = 0; i < characters_.size(); ++i) {
    ids_.emplace(characters_[i], static_cast<int32_t>(i));
  }
}

CharacterVocabulary CharacterVocabulary::Of(const std::u32string& text) {
  std::vector<bool> seen(kCodePoints);
  for (char32_t code : text) seen[code] = true;
  std::vector<char32_t> characters;
  for (char32_t code = 0; code < kCodePoints; ++code) {
    if (seen[code]) characters.push_back(code);
  }
  return CharacterVocabulary(std::move(characters));
}

absl::StatusOr<CharacterVocabulary> CharacterVocabulary::FromJson(absl::string_view json,
                                                                  absl::string_view source) {
  const nlohmann::json value =
      nlohmann::json::parse(json.begin(), json.end(), nullptr, /*allow_exceptions=*/false);
  if (!value.is_object()) return NotAVocabulary(source, "it is not a JSON object");
  if (value.value("format", nlohmann::json()) != kFormat) {
    return NotAVocabulary(source, absl::StrCat("its format is not \"", kFormat, "\""));
  }
  if (value.value("version", nlohmann::json()) != kVersion) {
    return NotAVocabulary(source, absl::StrCat("its version is not ", kVersion));
  }
  const nlohmann::json list = value.value("characters", nlohmann::json());
  if (!list.is_array() || list.empty()) return NotAVocabulary(source, "it lists no characters");
  std::vector<char32_t> characters;
  for (const nlohmann::json& entry : list) {
    const auto* text = entry.get_ptr<const std::string*>();
    const auto [length, code] =
        text == nullptr || text->empty() ? std::pair<size_t, char32_t>{} : FirstCodePoint(*text);
    if (length == 0 || length != text->size()) {
      return NotAVocabulary(source,
                            absl::StrCat("entry ", characters.size(), " is not one character"));
    }
    characters.push_back(code);
  }
  CharacterVocabulary vocabulary(std::move(characters));
  if (vocabulary.ids_.size() != vocabulary.characters_.size()) {
    return NotAVocabulary(source, "a character is listed twice");
  }
  return vocabulary;
}

absl::StatusOr<CharacterVocabulary> CharacterVocabulary::Load(const std::string& path) {
  TOST_ASSIGN_OR_RETURN(const std::string json, ReadFile(path));
  return FromJson(json, path);
}

std::string CharacterVocabulary::ToJson() const {
  nlohmann::ordered_json value;
  value["format"] = kFormat;
  value["version"] = kVersion;
  value["characters"] = nlohmann::ordered_json::array();
  for (char32_t code : characters_) {
    std::string text;
    AppendUtf8(code, text);
    value["characters"].push_back(std::move(text));
  }
  return value.dump();
}

absl::StatusOr<std::vector<int32_t>> CharacterVocabulary::Encode(absl::string_view text,
                                                                 absl::string_view source) const {
  TOST_ASSIGN_OR_RETURN(const std::u32string codes, DecodeUtf8(text, source));
  return Encode(codes, source);
}

absl::StatusOr<std::vector<int32_t>> CharacterVocabulary::Encode(const std::u32string& text,
                                                                 absl::string_view source) const {
  std::vector<int32_t> ids;
  ids.reserve(text.size());
  for (char32_t code : text) {
    const auto found = ids_.find(code);
    if (found == ids_.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(source, ": character ", Shown(code), " at position ", ids.size(),
                       " is not in the vocabulary of ", size(),
                       " characters, which holds only those of the training text"));
    }
    ids.push_back(found->second);
  }
  return ids;
}

std::string CharacterVocabulary::Decode(std::span<const int32_t> ids) const {
  std::string text;
  text.reserve(ids.size());
  for (int32_t id : ids) {
    TOST_CHECK(id >= 0 && id < size()) << "id " << id << " in a vocabulary of " << size();
    AppendUtf8(characters_[static_cast<size_t>(id)], text);
  }
  return text;
}

}  // namespace tost::data
