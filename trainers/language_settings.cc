#include "trainers/language_settings.h"

#include <fstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "models/variants.h"

namespace tost::train {
namespace {

constexpr char kDefaultModel[] = "tost_char";

template <class T>
void OverrideIfSet(T option, T& setting) {
  if (option != 0) setting = option;
}

void OverrideSet(const LanguageTrainingOptions& options, models::LanguageConfig& config) {
  OverrideIfSet(options.layers, config.layers);
  OverrideIfSet(options.heads, config.heads);
  OverrideIfSet(options.width, config.width);
  OverrideIfSet(options.context, config.context);
  OverrideIfSet(options.vocabulary, config.vocabulary);
}

// The architecture belongs to the checkpoint; a setting that says otherwise is refused by name.
absl::Status RequireSameModel(const models::LanguageConfig& asked,
                              const models::LanguageConfig& saved, const std::string& checkpoint) {
  if (asked == saved) return absl::OkStatus();
  std::vector<std::string> differences;
  auto compare = [&](absl::string_view option, auto a, auto b) {
    if (a != b) differences.push_back(absl::StrCat("--", option, " ", a, " against ", b));
  };
  auto family = [](const models::LanguageConfig& config) {
    return absl::StrCat(config.mixer == models::Mixer::kTssa ? "tost" : "gpt2",
                        config.layer_scale.has_value() ? " with LayerScale" : "");
  };
  compare("model", family(asked), family(saved));
  compare("layers", asked.layers, saved.layers);
  compare("heads", asked.heads, saved.heads);
  compare("width", asked.width, saved.width);
  compare("context", asked.context, saved.context);
  compare("vocabulary", asked.vocabulary, saved.vocabulary);
  compare("bias", asked.bias, saved.bias);
  return absl::InvalidArgumentError(absl::StrCat("the settings contradict the architecture in ",
                                                 checkpoint, ": ", absl::StrJoin(differences, ", "),
                                                 "; leave these options out"));
}

// An error when the checkpoint was trained on ids of another tokenizer than the data's.
absl::Status RequireSameTokenizer(const std::optional<data::Tokenizer>& tokenizer,
                                  const LanguageRunHeader& header, const std::string& data) {
  const std::string& saved = header.state.vocabulary;
  if (!tokenizer.has_value() || saved.empty() || tokenizer->ToJson() == saved) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(data, ": its vocabulary is not the one ",
                                                 header.checkpoint, " was trained with"));
}

}  // namespace

absl::StatusOr<std::optional<data::Tokenizer>> TokenizerOf(const LanguageTrainingOptions& options) {
  std::optional<data::Tokenizer> named, recorded;
  if (!options.tokenizer.empty()) {
    TOST_ASSIGN_OR_RETURN(named, data::Tokenizer::Named(options.tokenizer));
  }
  const std::string path = absl::StrCat(options.data, "/", data::kTokenizerFile);
  if (!std::ifstream(path).good()) return named;
  TOST_ASSIGN_OR_RETURN(recorded, data::Tokenizer::Load(path));
  if (named.has_value() && named->digest() != recorded->digest()) {
    return absl::InvalidArgumentError(absl::StrCat("--tokenizer ", options.tokenizer,
                                                   " is not the one of ", path, " (",
                                                   recorded->name(), "); leave the option out"));
  }
  return recorded;
}

int64_t EmbeddingRows(const data::Tokenizer& tokenizer) {
  constexpr int64_t kMultiple = 64;
  const int64_t ids = tokenizer.vocabulary();
  if (tokenizer.byte_pairs() == nullptr) return ids;
  return (ids + kMultiple - 1) / kMultiple * kMultiple;
}

absl::StatusOr<models::LanguageConfig> ConfigOf(const LanguageTrainingOptions& options,
                                                const std::optional<data::Tokenizer>& tokenizer) {
  TOST_ASSIGN_OR_RETURN(
      models::LanguageConfig config,
      models::LanguageVariant(options.model.empty() ? kDefaultModel : options.model));
  if (tokenizer.has_value()) config.vocabulary = EmbeddingRows(*tokenizer);
  OverrideSet(options, config);
  config.bias = options.bias;
  if (tokenizer.has_value() && config.vocabulary < tokenizer->vocabulary()) {
    return absl::InvalidArgumentError(absl::StrCat("--vocabulary ", config.vocabulary,
                                                   " is smaller than the data's ",
                                                   tokenizer->vocabulary()));
  }
  TOST_RETURN_IF_ERROR(config.Validate());
  return config;
}

absl::StatusOr<models::LanguageConfig> ConfigOfCheckpoint(
    const LanguageTrainingOptions& options, const std::optional<data::Tokenizer>& tokenizer,
    const LanguageRunHeader& header) {
  models::LanguageConfig asked = header.config;
  if (!options.model.empty()) {
    TOST_ASSIGN_OR_RETURN(asked, models::LanguageVariant(options.model));
    asked.vocabulary = header.config.vocabulary;
    // A named model leaves biases and the form of GELU open; what the checkpoint has of them is no
    // contradiction.
    asked.bias = header.config.bias;
    asked.gelu = header.config.gelu;
  }
  OverrideSet(options, asked);
  asked.bias = asked.bias || options.bias;
  TOST_RETURN_IF_ERROR(RequireSameModel(asked, header.config, header.checkpoint));
  TOST_RETURN_IF_ERROR(RequireSameTokenizer(tokenizer, header, options.data));
  return header.config;
}

absl::StatusOr<WarmupCosine> ScheduleOf(const LanguageTrainingOptions& options) {
  if (options.schedule == "cosine") {
    return WarmupCosine{.peak = options.learning_rate,
                        .floor = options.min_learning_rate,
                        .warmup = options.warmup,
                        .total = options.steps};
  }
  if (options.schedule == "constant") {
    return WarmupCosine{.peak = options.learning_rate,
                        .floor = options.learning_rate,
                        .warmup = options.warmup,
                        .total = options.steps};
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--schedule is cosine or constant, not '", options.schedule, "'"));
}

int64_t UpdatesOf(const LanguageTrainingOptions& options) {
  return options.steps + (options.official_loop ? 1 : 0);
}

float LearningRateAt(const LanguageTrainingOptions& options, const WarmupCosine& schedule,
                     int64_t update) {
  return schedule.At(options.official_loop ? update - 1 : update);
}

}  // namespace tost::train
