#include "trainers/architecture_files.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "autograd/base/errors.h"
#include "nlohmann/json.hpp"
#include "trainers/language_run.h"

namespace tost::train {
namespace {

using nlohmann::json;
using What = Stated::What;

constexpr double kLayerNormEpsilon = 1e-5;

std::vector<Stated> Statements(const models::LanguageConfig& config, const std::string& source) {
  const auto said = [&](What what, int64_t value) { return Stated{what, value, source}; };
  std::vector<Stated> stated{said(What::kTssa, config.mixer == models::Mixer::kTssa ? 1 : 0),
                             said(What::kLayerScale, config.layer_scale.has_value() ? 1 : 0),
                             said(What::kBias, config.bias ? 1 : 0),
                             said(What::kLayers, config.layers),
                             said(What::kHeads, config.heads),
                             said(What::kWidth, config.width),
                             said(What::kContext, config.context),
                             said(What::kVocabulary, config.vocabulary)};
  return stated;
}

// The error for a setting of Hugging Face's that has another value than our models.
absl::Status Unlike(const std::string& source, absl::string_view key, const json& value,
                    absl::string_view known) {
  return absl::InvalidArgumentError(absl::StrCat(source, ": ", key, " is ", value.dump(),
                                                 ", and models with ", known, " are read"));
}

absl::Status CheckSettings(const json& config, const std::string& source) {
  struct Flag {
    const char* key;
    bool value;
  };
  for (const Flag& flag :
       {Flag{"scale_attn_weights", true}, Flag{"scale_attn_by_inverse_layer_idx", false},
        Flag{"add_cross_attention", false}}) {
    const json value = config.value(flag.key, json(flag.value));
    if (value != flag.value) return Unlike(source, flag.key, value, flag.value ? "true" : "false");
  }
  const json epsilon = config.value("layer_norm_epsilon", json(kLayerNormEpsilon));
  if (epsilon != kLayerNormEpsilon) return Unlike(source, "layer_norm_epsilon", epsilon, "1e-5");
  return absl::OkStatus();
}

absl::StatusOr<StatedArchitecture> ParseHuggingFace(const json& config, const std::string& source) {
  StatedArchitecture architecture;
  TOST_RETURN_IF_ERROR(CheckSettings(config, source));
  const json activation = config.value("activation_function", json("gelu_new"));
  if (activation == "gelu") {
    architecture.gelu = models::GeluForm::kExact;
  } else if (activation == "gelu_new" || activation == "gelu_pytorch_tanh") {
    architecture.gelu = models::GeluForm::kTanh;
  } else {
    return Unlike(source, "activation_function", activation, "gelu, gelu_new or gelu_pytorch_tanh");
  }
  constexpr std::pair<const char*, What> kKeys[] = {{"n_layer", What::kLayers},
                                                    {"n_head", What::kHeads},
                                                    {"n_embd", What::kWidth},
                                                    {"n_positions", What::kContext},
                                                    {"vocab_size", What::kVocabulary}};
  for (const auto& [key, what] : kKeys) {
    const auto found = config.find(key);
    if (found == config.end()) continue;
    if (!found->is_number_integer()) return Unlike(source, key, *found, "a whole number of it");
    architecture.stated.push_back(
        {what, found->get<int64_t>(), absl::StrCat(source, ", ", key, ",")});
  }
  return architecture;
}

}  // namespace

absl::StatusOr<StatedArchitecture> ParseArchitecture(absl::string_view text,
                                                     const std::string& source) {
  const json config = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(source, " is no JSON object"));
  }
  if (config.contains("mixer")) {
    TOST_ASSIGN_OR_RETURN(const models::LanguageConfig ours, LanguageConfigFromJson(text, source));
    return StatedArchitecture{Statements(ours, source), ours.gelu};
  }
  const json type = config.value("model_type", json());
  if (type == "gpt2") return ParseHuggingFace(config, source);
  return Unlike(source, "model_type", type, "\"gpt2\"");
}

StatedArchitecture ModelArgsOf(const PickleValue& checkpoint) {
  StatedArchitecture architecture;
  const PickleValue* arguments = checkpoint.Find("model_args");
  if (arguments == nullptr) return architecture;
  constexpr std::pair<const char*, What> kKeys[] = {
      {"n_layer", What::kLayers},     {"n_head", What::kHeads},          {"n_embd", What::kWidth},
      {"block_size", What::kContext}, {"vocab_size", What::kVocabulary}, {"bias", What::kBias},
      {"TSSA", What::kTssa}};
  for (const auto& [key, what] : kKeys) {
    const PickleValue* value = arguments->Find(key);
    const bool number = value != nullptr && (value->kind == PickleValue::Kind::kInteger ||
                                             value->kind == PickleValue::Kind::kBool);
    if (!number) continue;
    architecture.stated.push_back(
        {what, value->integer, absl::StrCat("its model_args, ", key, ",")});
  }
  return architecture;
}

std::string HuggingFaceConfig(const models::LanguageConfig& config, absl::string_view dtype,
                              std::optional<int32_t> end_of_text) {
  TOST_CHECK(config.mixer == models::Mixer::kAttention) << "Hugging Face has no TSSA";
  nlohmann::ordered_json object = {
      {"architectures", {"GPT2LMHeadModel"}},
      {"model_type", "gpt2"},
      {"n_layer", config.layers},
      {"n_head", config.heads},
      {"n_embd", config.width},
      {"n_positions", config.context},
      {"n_ctx", config.context},
      {"vocab_size", config.vocabulary},
      {"activation_function", config.gelu == models::GeluForm::kTanh ? "gelu_new" : "gelu"},
      {"layer_norm_epsilon", kLayerNormEpsilon},
      {"tie_word_embeddings", true},
      {"embd_pdrop", 0.0},
      {"attn_pdrop", 0.0},
      {"resid_pdrop", 0.0},
      {"torch_dtype", std::string(dtype)},
      {"bos_token_id", nullptr},
      {"eos_token_id", nullptr}};
  if (end_of_text.has_value()) object["bos_token_id"] = object["eos_token_id"] = *end_of_text;
  return absl::StrCat(object.dump(2), "\n");
}

}  // namespace tost::train
