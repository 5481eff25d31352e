#include "data/tokenizer.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "autograd/base/errors.h"
#include "data/atomic_file.h"
#include "data/digest.h"
#include "nlohmann/json.hpp"

namespace tost::data {
namespace {

using Json = nlohmann::json;

constexpr char kFormat[] = "tost tokenizer";
constexpr int kVersion = 1;
constexpr char kCharacters[] = "characters";
constexpr char kGpt2[] = "gpt2";
constexpr char kBytePairs[] = "byte_pairs";

// A text member of an object, or "".
std::string Text(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

absl::StatusOr<Tokenizer> BytePairsFromJson(const Json& json, absl::string_view source) {
  if (json.value("version", Json()) != kVersion) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": its tokenizer's version is not ",
                                                   kVersion,
                                                   "; use the version of tost that wrote it"));
  }
  const std::string name = Text(json, "name");
  if (name == kGpt2) return Tokenizer::Gpt2();
  if (name != kBytePairs) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": unknown tokenizer '", name,
                                                   "'; this version knows ", kGpt2, " and ",
                                                   kBytePairs));
  }
  TOST_ASSIGN_OR_RETURN(
      BytePairEncoding encoding,
      BytePairEncoding::Create({.tokens = Text(json, "tokens"),
                                .merges = Text(json, "merges"),
                                .tokens_source = absl::StrCat(source, ", tokens"),
                                .merges_source = absl::StrCat(source, ", merges")}));
  return Tokenizer::OfBytePairs(std::move(encoding));
}

}  // namespace

Tokenizer::Tokenizer(std::string name, std::string digest,
                     std::variant<Characters, BytePairs> model)
    : name_(std::move(name)), digest_(std::move(digest)), model_(std::move(model)) {}

Tokenizer Tokenizer::OfCharacters(CharacterVocabulary vocabulary) {
  std::string digest = Sha256Of(vocabulary.ToJson());
  return Tokenizer(kCharacters, std::move(digest),
                   std::make_shared<const CharacterVocabulary>(std::move(vocabulary)));
}

Tokenizer Tokenizer::Gpt2() {
  // The tables live as long as the program; nothing owns them.
  const BytePairEncoding& gpt2 = BytePairEncoding::Gpt2();
  return Tokenizer(kGpt2, gpt2.digest(), BytePairs(BytePairs(), &gpt2));
}

Tokenizer Tokenizer::OfBytePairs(BytePairEncoding encoding) {
  if (encoding.digest() == BytePairEncoding::Gpt2().digest()) return Gpt2();
  std::string digest = encoding.digest();
  return Tokenizer(kBytePairs, std::move(digest),
                   std::make_shared<const BytePairEncoding>(std::move(encoding)));
}

absl::StatusOr<Tokenizer> Tokenizer::Named(const std::string& name_or_folder) {
  if (name_or_folder == kGpt2) return Gpt2();
  TOST_ASSIGN_OR_RETURN(BytePairEncoding encoding, BytePairEncoding::Load(name_or_folder));
  return OfBytePairs(std::move(encoding));
}

absl::StatusOr<Tokenizer> Tokenizer::FromJson(absl::string_view text, absl::string_view source) {
  const Json json = Json::parse(text.begin(), text.end(), /*cb=*/nullptr, /*throw=*/false);
  if (!json.is_object() || Text(json, "format") != kFormat) {
    TOST_ASSIGN_OR_RETURN(CharacterVocabulary characters,
                          CharacterVocabulary::FromJson(text, source));
    return OfCharacters(std::move(characters));
  }
  TOST_ASSIGN_OR_RETURN(Tokenizer tokenizer, BytePairsFromJson(json, source));
  const std::string digest = Text(json, "digest");
  if (digest != tokenizer.digest()) {
    return absl::DataLossError(absl::StrCat(source, ": its tokenizer '", tokenizer.name(),
                                            "' has digest '", digest, "', but the tables give ",
                                            tokenizer.digest(), "; prepare the data again"));
  }
  return tokenizer;
}

absl::StatusOr<Tokenizer> Tokenizer::Load(const std::string& path) {
  TOST_ASSIGN_OR_RETURN(const std::string json, ReadFile(path));
  return FromJson(json, path);
}

std::string Tokenizer::ToJson() const {
  if (const auto* characters = std::get_if<Characters>(&model_)) return (*characters)->ToJson();
  Json json = {{"format", kFormat}, {"version", kVersion}, {"name", name_}, {"digest", digest_}};
  if (name_ == kBytePairs) {
    json["tokens"] = byte_pairs()->tables().tokens;
    json["merges"] = byte_pairs()->tables().merges;
  }
  // A "#version" line may hold anything; all else is UTF-8.
  constexpr auto kReplace = Json::error_handler_t::replace;
  return absl::StrCat(json.dump(/*indent=*/-1, ' ', /*ensure_ascii=*/false, kReplace), "\n");
}

int64_t Tokenizer::vocabulary() const {
  return std::visit([](const auto& model) { return model->size(); }, model_);
}

std::optional<int32_t> Tokenizer::end_of_text() const {
  return byte_pairs() != nullptr ? byte_pairs()->end_of_text() : std::nullopt;
}

const BytePairEncoding* Tokenizer::byte_pairs() const {
  const auto* model = std::get_if<BytePairs>(&model_);
  return model != nullptr ? model->get() : nullptr;
}

absl::Status Tokenizer::Encode(absl::string_view text, absl::string_view source,
                               std::vector<int32_t>& ids, SpecialTokens special) const {
  if (const auto* characters = std::get_if<Characters>(&model_)) {
    TOST_ASSIGN_OR_RETURN(const std::vector<int32_t> encoded, (*characters)->Encode(text, source));
    ids.insert(ids.end(), encoded.begin(), encoded.end());
  } else if (special == SpecialTokens::kRecognised) {
    byte_pairs()->EncodeWithSpecialTokens(text, ids);
  } else {
    byte_pairs()->Encode(text, ids);
  }
  return absl::OkStatus();
}

std::string Tokenizer::Decode(std::span<const int32_t> ids) const {
  return std::visit([&](const auto& model) { return model->Decode(ids); }, model_);
}

}  // namespace tost::data
