#include "trainers/language_run.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "trainers/run_folder.h"

namespace tost::train {
namespace {

using nlohmann::json;

constexpr char kTssa[] = "tssa";
constexpr char kAttention[] = "attention";
constexpr char kExact[] = "exact";
constexpr char kTanh[] = "tanh";

// The number under `key`, or an error that names it.
absl::StatusOr<int64_t> Integer(const json& object, const char* key, absl::string_view source) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) {
    return absl::DataLossError(absl::StrCat(source, ": the model description has no number ", key));
  }
  return found->get<int64_t>();
}

}  // namespace

std::string ToJson(const models::LanguageConfig& config) {
  json object = {{"mixer", config.mixer == models::Mixer::kTssa ? kTssa : kAttention},
                 {"layers", config.layers},
                 {"heads", config.heads},
                 {"width", config.width},
                 {"context", config.context},
                 {"vocabulary", config.vocabulary},
                 {"bias", config.bias},
                 {"layer_scale", nullptr},
                 {"gelu", config.gelu == models::GeluForm::kTanh ? kTanh : kExact}};
  if (config.layer_scale.has_value()) object["layer_scale"] = *config.layer_scale;
  return object.dump();
}

absl::StatusOr<models::LanguageConfig> LanguageConfigFromJson(absl::string_view text,
                                                              absl::string_view source) {
  const json object = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) {
    return absl::DataLossError(absl::StrCat(source, ": holds no description of a language model"));
  }
  if (object.contains("architecture")) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, " is an image classifier, where a language model is needed"));
  }
  models::LanguageConfig config;
  const std::string mixer = object.value("mixer", json("")).is_string()
                                ? object.value("mixer", json("")).get<std::string>()
                                : std::string();
  if (mixer != kTssa && mixer != kAttention) {
    return absl::DataLossError(absl::StrCat(source, ": unknown mixer '", mixer, "'"));
  }
  config.mixer = mixer == kTssa ? models::Mixer::kTssa : models::Mixer::kAttention;
  TOST_ASSIGN_OR_RETURN(const int64_t layers, Integer(object, "layers", source));
  TOST_ASSIGN_OR_RETURN(const int64_t heads, Integer(object, "heads", source));
  TOST_ASSIGN_OR_RETURN(const int64_t width, Integer(object, "width", source));
  TOST_ASSIGN_OR_RETURN(config.context, Integer(object, "context", source));
  TOST_ASSIGN_OR_RETURN(config.vocabulary, Integer(object, "vocabulary", source));
  config.layers = static_cast<int>(layers);
  config.heads = static_cast<int>(heads);
  config.width = static_cast<int>(width);
  config.bias =
      object.contains("bias") && object["bias"].is_boolean() && object["bias"].get<bool>();
  const bool scaled = object.contains("layer_scale") && object["layer_scale"].is_number();
  config.layer_scale = scaled ? std::optional(object["layer_scale"].get<float>()) : std::nullopt;
  const json gelu = object.value("gelu", json(kExact));  // absent from older checkpoints
  if (gelu != kExact && gelu != kTanh) {
    return absl::DataLossError(absl::StrCat(source, ": unknown gelu ", gelu.dump()));
  }
  config.gelu = gelu == kTanh ? models::GeluForm::kTanh : models::GeluForm::kExact;
  TOST_RETURN_IF_ERROR(config.Validate());
  return config;
}

absl::StatusOr<LanguageRunHeader> ReadLanguageRunHeader(const std::string& path) {
  LanguageRunHeader header;
  TOST_ASSIGN_OR_RETURN(header.checkpoint, CheckpointAt(path));
  TOST_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(header.checkpoint));
  TOST_ASSIGN_OR_RETURN(header.state, checkpoint.State());
  TOST_ASSIGN_OR_RETURN(header.config,
                        LanguageConfigFromJson(header.state.extra[kModelKey], header.checkpoint));
  return header;
}

absl::StatusOr<LanguageRun> LoadLanguageRun(const std::string& path, DType compute_dtype,
                                            Device device) {
  TOST_ASSIGN_OR_RETURN(LanguageRunHeader header, ReadLanguageRunHeader(path));
  LanguageRun run;
  run.checkpoint = std::move(header.checkpoint);
  run.state = std::move(header.state);
  run.config = header.config;
  if (!run.state.vocabulary.empty()) {
    TOST_ASSIGN_OR_RETURN(run.tokenizer,
                          data::Tokenizer::FromJson(run.state.vocabulary, run.checkpoint));
  }
  run.params = std::make_unique<ParameterSet>(device, run.state.seed);
  run.model = std::make_unique<models::LanguageModel>(run.params->Root(), run.config);
  run.params->Finalize(compute_dtype);
  TOST_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(run.checkpoint));
  TOST_RETURN_IF_ERROR(checkpoint.LoadWeights(*run.params));
  return run;
}

absl::StatusOr<data::TokenDataset> OpenTokens(const std::string& data, data::Split split,
                                              const models::LanguageConfig& config,
                                              const std::optional<data::Tokenizer>& tokenizer) {
  TOST_ASSIGN_OR_RETURN(data::TokenDataset tokens,
                        data::TokenDataset::Open(data, split, config.vocabulary));
  const std::string& digest = tokens.tokenizer_digest();
  if (tokenizer.has_value() && !digest.empty() && digest != tokenizer->digest()) {
    return absl::InvalidArgumentError(absl::StrCat(
        data, ": its ", Name(split), " tokens were made by another tokenizer (digest ",
        digest.substr(0, 12), "…) than the model's (", tokenizer->name(), ", ",
        tokenizer->digest().substr(0, 12), "…); prepare the text again with the model's"));
  }
  return tokens;
}

}  // namespace tost::train
