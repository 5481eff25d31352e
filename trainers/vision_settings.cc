#include "trainers/vision_settings.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "autograd/base/log.h"
#include "models/variants.h"
#include "nlohmann/json.hpp"
#include "trainers/schedule.h"

namespace tost::train {
namespace {

using nlohmann::json;

constexpr char kDefaultModel[] = "tost_small_pictures_p8";

// A named value among those that an option may have.
template <class T>
absl::StatusOr<T> Choice(absl::string_view option, const std::string& asked,
                         const std::vector<std::pair<const char*, T>>& choices) {
  std::vector<std::string> names;
  for (const auto& [name, value] : choices) {
    if (asked == name) return value;
    names.push_back(name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--", option, " is ", absl::StrJoin(names, " or "), ", not '", asked, "'"));
}

absl::StatusOr<data::Orientation> OrientationNamed(const std::string& name) {
  return Choice<data::Orientation>(
      "orientation", name,
      {{"upright", data::Orientation::kUpright}, {"stored", data::Orientation::kStored}});
}

absl::StatusOr<data::Filter> FilterNamed(const std::string& name) {
  return Choice<data::Filter>(
      "interpolation", name,
      {{"bilinear", data::Filter::kBilinear}, {"bicubic", data::Filter::kBicubic}});
}

const char* Name(data::Filter filter) {
  return filter == data::Filter::kBilinear ? "bilinear" : "bicubic";
}

const char* Name(data::Orientation orientation) {
  return orientation == data::Orientation::kUpright ? "upright" : "stored";
}

// The crop fraction in options and files that stands for no crop.
constexpr double kSqueezed = 0;

std::optional<double> CropFraction(double fraction) {
  return fraction == kSqueezed ? std::nullopt : std::optional(fraction);
}

// A JSON object out of a checkpoint's extra values.
absl::StatusOr<json> ObjectIn(absl::string_view text, absl::string_view source,
                              absl::string_view key) {
  json object = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (object.is_object()) return object;
  return absl::DataLossError(absl::StrCat(source, ": its \"", key, "\" is no JSON object"));
}

// Takes the fields of an object that are there and of the right kind.
struct Fields {
  const json& object;
  void Take(const char* name, std::string& value) const {
    if (object.contains(name) && object[name].is_string()) value = object[name];
  }
  void Take(const char* name, bool& value) const {
    if (object.contains(name) && object[name].is_boolean()) value = object[name];
  }
  template <class Number>
  void Take(const char* name, Number& value) const {
    if (object.contains(name) && object[name].is_number()) value = object[name];
  }
};

absl::Status RequirePositive(absl::string_view option, double value) {
  if (value > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--", option, " must be above 0, got ", value));
}

absl::Status RequireShare(absl::string_view option, double value, bool below_one) {
  if (value >= 0 && (below_one ? value < 1 : value <= 1)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--", option, " must be in [0, 1", below_one ? ")" : "]", ", got ", value));
}

}  // namespace

std::string ToJson(const Preprocessing& preprocessing) {
  const data::EvaluationTransform& transform = preprocessing.transform;
  return json{{"size", transform.size},
              {"crop_fraction", transform.crop_fraction.value_or(kSqueezed)},
              {"interpolation", Name(transform.filter)},
              {"orientation", Name(preprocessing.orientation)}}
      .dump();
}

absl::StatusOr<Preprocessing> PreprocessingFromJson(absl::string_view text,
                                                    absl::string_view source) {
  TOST_ASSIGN_OR_RETURN(const json object, ObjectIn(text, source, kPreprocessingKey));
  Preprocessing preprocessing;
  std::string interpolation, orientation;
  const Fields fields{object};
  fields.Take("size", preprocessing.transform.size);
  double crop_fraction = kSqueezed;
  fields.Take("crop_fraction", crop_fraction);
  preprocessing.transform.crop_fraction = CropFraction(crop_fraction);
  fields.Take("interpolation", interpolation);
  fields.Take("orientation", orientation);
  TOST_ASSIGN_OR_RETURN(preprocessing.transform.filter, FilterNamed(interpolation));
  TOST_ASSIGN_OR_RETURN(preprocessing.orientation, OrientationNamed(orientation));
  TOST_RETURN_IF_ERROR(preprocessing.transform.Validate());
  return preprocessing;
}

absl::StatusOr<Preprocessing> PreprocessingOf(const CheckpointState& state,
                                              const std::string& source,
                                              const models::ImageClassifierConfig& config) {
  const auto found = state.extra.find(kPreprocessingKey);
  if (found != state.extra.end()) return PreprocessingFromJson(found->second, source);
  return Preprocessing{.transform = {.size = static_cast<int>(models::image_size(config))}};
}

absl::StatusOr<Preprocessing> PreprocessingOf(const VisionTrainingOptions& options,
                                              int64_t image_size) {
  Preprocessing preprocessing{
      .transform = {.size = static_cast<int>(image_size),
                    .crop_fraction = CropFraction(static_cast<double>(options.crop_fraction))}};
  TOST_ASSIGN_OR_RETURN(preprocessing.transform.filter, FilterNamed(options.interpolation));
  TOST_ASSIGN_OR_RETURN(preprocessing.orientation, OrientationNamed(options.data.orientation));
  TOST_RETURN_IF_ERROR(preprocessing.transform.Validate());
  return preprocessing;
}

absl::StatusOr<data::ImageSets> OpenImages(const ImageDataOptions& options) {
  TOST_ASSIGN_OR_RETURN(
      data::ImageSets sets,
      data::OpenImageSets({.data = absl::StrSplit(options.data, ',', absl::SkipEmpty()),
                           .format = options.format,
                           .labels = options.labels,
                           .protocol = options.protocol,
                           .validation_fraction = options.validation_fraction,
                           .seed = options.split_seed,
                           .any_sizes = options.any_sizes}));
  for (const std::string& note : sets.notes) LogInfo(note);
  return sets;
}

std::string ToJson(const ImageDataOptions& options) {
  return json{{"data", options.data},
              {"format", options.format},
              {"labels", options.labels},
              {"protocol", options.protocol},
              {"validation_fraction", options.validation_fraction},
              {"split_seed", options.split_seed},
              {"any_sizes", options.any_sizes}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

absl::StatusOr<ImageDataOptions> DataOptionsFor(const ImageDataOptions& options,
                                                const CheckpointState& state) {
  if (!options.data.empty()) return options;
  const auto found = state.extra.find(kImageDataKey);
  if (found == state.extra.end()) {
    return absl::InvalidArgumentError(
        "--data is missing, and the run does not say what it was trained on");
  }
  TOST_ASSIGN_OR_RETURN(const json object, ObjectIn(found->second, "the run", kImageDataKey));
  ImageDataOptions result = options;
  const Fields fields{object};
  fields.Take("data", result.data);
  fields.Take("format", result.format);
  fields.Take("labels", result.labels);
  fields.Take("protocol", result.protocol);
  fields.Take("validation_fraction", result.validation_fraction);
  fields.Take("split_seed", result.split_seed);
  fields.Take("any_sizes", result.any_sizes);
  return result;
}

absl::StatusOr<models::ImageClassifierConfig> ConfigOf(const VisionTrainingOptions& options,
                                                       int64_t classes) {
  if (options.reset_head) {
    return absl::InvalidArgumentError("--reset_head is for --init: there is no head to replace");
  }
  TOST_ASSIGN_OR_RETURN(
      models::ImageClassifierConfig config,
      models::ImageVariant(options.model.empty() ? kDefaultModel : options.model));
  config = models::WithClasses(config, classes);
  if (options.image_size != 0) config = models::WithImageSize(config, options.image_size);
  TOST_RETURN_IF_ERROR(models::Validate(config));
  return config;
}

absl::StatusOr<models::ImageClassifierConfig> ConfigOfCheckpoint(
    const VisionTrainingOptions& options, int64_t classes, const VisionRunHeader& header) {
  const bool resuming = !options.resume.empty();
  models::ImageClassifierConfig config = header.config;
  if (!resuming && options.image_size != 0) {
    config = models::WithImageSize(config, options.image_size);
  }
  if (classes != models::classes(header.config)) {
    if (resuming || !options.reset_head) {
      return absl::InvalidArgumentError(
          absl::StrCat(header.checkpoint, " knows ", models::classes(header.config),
                       " classes, but the data have ", classes,
                       resuming ? "" : "; give --reset_head to begin with a new last layer"));
    }
    config = models::WithClasses(config, classes);
  }
  if (!options.model.empty()) {
    TOST_ASSIGN_OR_RETURN(models::ImageClassifierConfig named, models::ImageVariant(options.model));
    named = models::WithImageSize(models::WithClasses(named, classes), models::image_size(config));
    if (named != config) {
      return absl::InvalidArgumentError(
          absl::StrCat("--model ", options.model, " contradicts the architecture in ",
                       header.checkpoint, " (", ToJson(header.config), "); leave the option out"));
    }
  }
  if (resuming && options.image_size != 0 && options.image_size != models::image_size(config)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--image_size ", options.image_size, " contradicts ", header.checkpoint,
                     ", which is for ", models::image_size(config), " pixels"));
  }
  TOST_RETURN_IF_ERROR(models::Validate(config));
  return config;
}

absl::StatusOr<data::ImageLoaderOptions> LoaderOptionsOf(
    const VisionTrainingOptions& options, const models::ImageClassifierConfig& config,
    int micro_steps) {
  TOST_RETURN_IF_ERROR(RequireShare("label_smoothing", options.label_smoothing, true));
  data::ImageLoaderOptions loader{.mixing = {.mixup_alpha = options.mixup,
                                             .cutmix_alpha = options.cutmix,
                                             .probability = options.mixing_probability},
                                  .label_smoothing = options.label_smoothing,
                                  .classes = models::classes(config),
                                  .repeats = options.repeats,
                                  .micro_batch = options.global_batch / micro_steps,
                                  .micro_steps = micro_steps,
                                  .workers = options.data.workers,
                                  .seed = options.seed};
  data::AugmentOptions& augment = loader.augment;
  augment.size = static_cast<int>(models::image_size(config));
  TOST_ASSIGN_OR_RETURN(augment.crop,
                        Choice<data::CropKind>("crop", options.crop,
                                               {{"random_resized", data::CropKind::kRandomResized},
                                                {"padded", data::CropKind::kPadded},
                                                {"none", data::CropKind::kNone}}));
  TOST_ASSIGN_OR_RETURN(augment.filter, FilterNamed(options.interpolation));
  augment.flip_probability = options.flip;
  if (!options.rand_augment.empty()) {
    TOST_ASSIGN_OR_RETURN(augment.rand_augment, data::ParseRandAugment(options.rand_augment));
  }
  augment.color_jitter = options.color_jitter;
  augment.erase_probability = options.erasing;
  TOST_RETURN_IF_ERROR(augment.Validate());
  TOST_RETURN_IF_ERROR(loader.mixing.Validate());
  TOST_ASSIGN_OR_RETURN(loader.orientation, OrientationNamed(options.data.orientation));
  TOST_ASSIGN_OR_RETURN(loader.bad_images, data::BadImagesNamed(options.data.bad_images));
  return loader;
}

int64_t UpdatesIn(double epochs, int64_t updates_per_epoch) {
  return std::llround(epochs * static_cast<double>(updates_per_epoch));
}

int64_t UpdatesOf(const VisionTrainingOptions& options, int64_t updates_per_epoch) {
  return options.steps >= 0 ? options.steps : UpdatesIn(options.epochs, updates_per_epoch);
}

float PeakRateOf(const VisionTrainingOptions& options) {
  if (options.rate_batch == 0) return options.learning_rate;
  return static_cast<float>(static_cast<double>(options.learning_rate) *
                            static_cast<double>(options.global_batch) /
                            static_cast<double>(options.rate_batch));
}

absl::StatusOr<LearningRate> LearningRateOf(const VisionTrainingOptions& options,
                                            int64_t updates_per_epoch) {
  TOST_RETURN_IF_ERROR(RequirePositive("learning_rate", options.learning_rate));
  const float peak = PeakRateOf(options);
  const int64_t epochs = std::llround(options.epochs);
  const auto epoch_of = [updates_per_epoch](int64_t update) {
    return (update - 1) / updates_per_epoch;
  };
  if (options.schedule == "official_pretraining") {
    const VisionSchedule schedule{.peak = peak,
                                  .floor = options.min_learning_rate,
                                  .warmup = std::llround(options.warmup_epochs),
                                  .epochs = epochs};
    return [=](int64_t update) { return schedule.AsOfficialLoop(epoch_of(update)); };
  }
  if (options.schedule == "official_fine_tuning") {
    const FineTuneSchedule schedule{.peak = peak, .epochs = epochs};
    return [=](int64_t update) { return schedule.AsOfficialLoop(epoch_of(update)); };
  }
  if (options.schedule != "cosine" && options.schedule != "constant") {
    return absl::InvalidArgumentError(
        absl::StrCat("--schedule is cosine, constant, official_pretraining or "
                     "official_fine_tuning, not '",
                     options.schedule, "'"));
  }
  const WarmupCosine schedule{
      .peak = peak,
      .floor = options.schedule == "constant" ? peak : options.min_learning_rate,
      .warmup = UpdatesIn(options.warmup_epochs, updates_per_epoch),
      .total = UpdatesOf(options, updates_per_epoch)};
  return [=](int64_t update) { return schedule.At(update); };
}

bool DecaysInOfficialPretraining(const Parameter& parameter) {
  return parameter.shape().rank() > 1 && !absl::EndsWith(parameter.name(), ".bias") &&
         parameter.name() != "cls_token";
}

absl::StatusOr<std::unique_ptr<Optimizer>> MakeOptimizer(
    const VisionTrainingOptions& options, const models::ImageClassifierConfig& config,
    ParameterSet& params) {
  TOST_RETURN_IF_ERROR(RequirePositive("layer_decay", options.layer_decay));
  OptimizerOptions shared{.beta1 = options.beta1,
                          .beta2 = options.beta2,
                          .momentum = options.momentum,
                          .weight_decay = options.weight_decay,
                          .clip_norm = options.clip_norm};
  if (options.decay == "official_pretraining") {
    shared.decays = &DecaysInOfficialPretraining;
  } else if (options.decay == "everything") {
    shared.decays = [](const Parameter&) { return true; };
  } else if (options.decay != "matrices") {
    return absl::InvalidArgumentError(absl::StrCat(
        "--decay is matrices, official_pretraining or everything, not '", options.decay, "'"));
  }
  if (options.layer_decay != 1) {
    const double decay = options.layer_decay;
    shared.rate_factor = [decay, config,
                          top = models::DepthOf(config) + 1](const Parameter& parameter) {
      return std::pow(decay, top - models::LayerOf(config, parameter.name()));
    };
  }
  if (options.optimizer == "adamw") return std::make_unique<AdamW>(params, std::move(shared));
  if (options.optimizer == "sgd") return std::make_unique<Sgd>(params, std::move(shared));
  return absl::InvalidArgumentError(
      absl::StrCat("--optimizer is adamw or sgd, not '", options.optimizer, "'"));
}

}  // namespace tost::train
