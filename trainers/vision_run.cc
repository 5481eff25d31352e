#include "trainers/vision_run.h"

#include <concepts>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <limits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "trainers/run_folder.h"

namespace tost::train {
namespace {

using models::CrateConfig;
using models::FeedForward;
using models::ImageClassifierConfig;
using models::VisionConfig;
using models::VisionMixer;
using nlohmann::json;

constexpr char kArchitecture[] = "architecture";
constexpr char kCrate[] = "crate";

constexpr std::pair<const char*, VisionMixer> kMixers[] = {
    {"token_statistics", VisionMixer::kTssa},
    {"attention", VisionMixer::kAttention},
    {"cross_covariance", VisionMixer::kCrossCovariance}};

// Reading and writing go by the same list: field(name, value) for each field of a configuration.
template <class Config, class Visit>
void ForCommonFields(Config& config, Visit&& field) {
  field("image_size", config.image_size);
  field("patch", config.patch);
  field("width", config.width);
  field("depth", config.depth);
  field("heads", config.heads);
  field("classes", config.classes);
}
template <class Visit>
void ForFields(VisionConfig& config, Visit&& field) {
  ForCommonFields(config, field);
  field("feed_forward", config.feed_forward);
  field("normalized_memberships", config.normalized_memberships);
  field("class_blocks", config.class_blocks);
  field("layer_scale", config.layer_scale);
  field("normalize_all_tokens", config.normalize_all_tokens);
}
template <class Visit>
void ForFields(CrateConfig& config, Visit&& field) {
  ForCommonFields(config, field);
  field("step", config.step);
  field("sparsity", config.sparsity);
}

constexpr char kMlp[] = "mlp";
constexpr char kIsta[] = "ista";

void Write(json& object, const char* name, FeedForward value) {
  object[name] = value == FeedForward::kMlp ? kMlp : kIsta;
}
void Write(json& object, const char* name, const auto& value) { object[name] = value; }

bool Read(const json& value, FeedForward& out) {
  out = value == kIsta ? FeedForward::kIsta : FeedForward::kMlp;
  return value == kMlp || value == kIsta;
}
bool Read(const json& value, bool& out) {
  if (value.is_boolean()) out = value.get<bool>();
  return value.is_boolean();
}
template <std::integral Number>
bool Read(const json& value, Number& out) {
  const bool fits = value.is_number_integer() && value >= std::numeric_limits<Number>::min() &&
                    value <= std::numeric_limits<Number>::max();
  if (fits) out = value.get<Number>();
  return fits;
}
template <std::floating_point Number>
bool Read(const json& value, Number& out) {
  if (value.is_number()) out = value.get<Number>();
  return value.is_number();
}

// Takes fields out of a description; the first that is missing or of another kind is the error.
class FieldReader {
 public:
  FieldReader(const json& object, absl::string_view source) : object_(object), source_(source) {}

  template <class Field>
  void operator()(const char* name, Field& field) {
    const auto found = object_.find(name);
    if (found != object_.end() && Read(*found, field)) return;
    status_.Update(absl::DataLossError(
        found == object_.end() ? absl::StrCat(source_, ": the model description has no ", name)
                               : absl::StrCat(source_, ": the model description has ", name, " = ",
                                              found->dump(), ", which is not a value of it")));
  }

  const absl::Status& status() const { return status_; }

 private:
  const json& object_;
  absl::string_view source_;
  absl::Status status_;
};

template <class Config>
absl::StatusOr<ImageClassifierConfig> ReadFields(const json& object, absl::string_view source,
                                                 Config config) {
  FieldReader reader(object, source);
  ForFields(config, reader);
  TOST_RETURN_IF_ERROR(reader.status());
  if (const absl::Status valid = config.Validate(); !valid.ok()) {
    return absl::DataLossError(absl::StrCat(source, ": ", valid.message()));
  }
  return config;
}

}  // namespace

std::string ToJson(const ImageClassifierConfig& config) {
  json object;
  if (const auto* vision = std::get_if<VisionConfig>(&config)) {
    for (const auto& [name, mixer] : kMixers) {
      if (mixer == vision->mixer) object[kArchitecture] = name;
    }
  } else {
    object[kArchitecture] = kCrate;
  }
  const auto write = [&](const char* name, const auto& value) { Write(object, name, value); };
  std::visit([&](auto fields) { ForFields(fields, write); }, config);
  return object.dump();
}

absl::StatusOr<ImageClassifierConfig> ImageClassifierConfigFromJson(absl::string_view text,
                                                                    absl::string_view source) {
  const json object = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) {
    return absl::DataLossError(
        absl::StrCat(source, ": holds no description of an image classifier"));
  }
  const auto architecture = object.find(kArchitecture);
  if (architecture == object.end() && object.contains("mixer")) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, " is a language model, where an image classifier is needed"));
  }
  if (architecture != object.end()) {
    if (*architecture == kCrate) return ReadFields(object, source, CrateConfig());
    for (const auto& [name, mixer] : kMixers) {
      if (*architecture == name) return ReadFields(object, source, VisionConfig{.mixer = mixer});
    }
  }
  return absl::DataLossError(
      absl::StrCat(source, ": unknown architecture ",
                   architecture == object.end() ? "(none)" : architecture->dump()));
}

bool DescribesImageClassifier(absl::string_view text) {
  const json object = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  return object.is_object() && object.contains(kArchitecture);
}

std::string ClassNamesToJson(const std::vector<std::string>& names) {
  // Names come from folders, whose bytes may be anything.
  return json(names).dump(-1, ' ', false, json::error_handler_t::replace);
}

absl::StatusOr<std::vector<std::string>> ClassNamesFromJson(absl::string_view text, int64_t classes,
                                                            absl::string_view source) {
  const json array = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  std::vector<std::string> names;
  bool fits = array.is_array() && std::ssize(array) == classes;
  for (size_t i = 0; fits && i < array.size(); ++i) {
    fits = array[i].is_string();
    if (fits) names.push_back(array[i].get<std::string>());
  }
  if (fits) return names;
  return absl::DataLossError(
      absl::StrCat(source, " is no JSON list of the names of ", classes, " classes"));
}

absl::StatusOr<VisionRunHeader> ReadVisionRunHeader(const std::string& path) {
  VisionRunHeader header;
  const std::string best = RunFolder::BestIn(path);
  if (std::ifstream(best).good()) {
    header.checkpoint = best;
  } else {
    TOST_ASSIGN_OR_RETURN(header.checkpoint, CheckpointAt(path));
  }
  TOST_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(header.checkpoint));
  TOST_ASSIGN_OR_RETURN(header.state, checkpoint.State());
  TOST_ASSIGN_OR_RETURN(header.config, ImageClassifierConfigFromJson(header.state.extra[kModelKey],
                                                                     header.checkpoint));
  const auto names = header.state.extra.find(kClassesKey);
  if (names == header.state.extra.end()) return header;
  TOST_ASSIGN_OR_RETURN(
      header.class_names,
      ClassNamesFromJson(names->second, models::classes(header.config),
                         absl::StrCat(header.checkpoint, ": its value \"", kClassesKey, "\"")));
  return header;
}

absl::StatusOr<VisionRun> LoadVisionRun(const std::string& path, DType compute_dtype,
                                        Device device) {
  TOST_ASSIGN_OR_RETURN(VisionRunHeader header, ReadVisionRunHeader(path));
  VisionRun run{.checkpoint = std::move(header.checkpoint),
                .state = std::move(header.state),
                .config = header.config,
                .class_names = std::move(header.class_names)};
  run.params = std::make_unique<ParameterSet>(device, run.state.seed);
  run.model = std::make_unique<models::ImageClassifier>(run.params->Root(), run.config);
  run.params->Finalize(compute_dtype);
  TOST_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(run.checkpoint));
  TOST_RETURN_IF_ERROR(checkpoint.LoadWeights(*run.params));
  return run;
}

}  // namespace tost::train
