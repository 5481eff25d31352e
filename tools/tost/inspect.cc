// tost inspect parameters, models, augment
#include <cstdio>
#include <memory>
#include <variant>

#include "absl/strings/str_cat.h"
#include "models/language_model.h"
#include "models/variants.h"
#include "tools/tost/command_line.h"
#include "tools/tost/vision_options.h"
#include "trainers/checkpoint.h"
#include "trainers/inspect_augment.h"
#include "trainers/language_run.h"
#include "trainers/progress.h"
#include "trainers/run_folder.h"
#include "trainers/vision_run.h"

namespace tost {
namespace {

struct InspectOptions {
  std::string model;
  std::string run;
};

using AnyConfig = std::variant<models::LanguageConfig, models::ImageClassifierConfig>;

absl::StatusOr<AnyConfig> NamedConfig(const std::string& name) {
  if (const auto language = models::LanguageVariant(name); language.ok()) return *language;
  if (const auto image = models::ImageVariant(name); image.ok()) return *image;
  return absl::NotFoundError(
      absl::StrCat("unknown model ", name, "; \"tost inspect models\" lists the known ones"));
}

absl::StatusOr<AnyConfig> ConfigOfRun(const std::string& run) {
  TOST_ASSIGN_OR_RETURN(const std::string path, train::CheckpointAt(run));
  TOST_ASSIGN_OR_RETURN(const train::Checkpoint checkpoint, train::Checkpoint::Open(path));
  TOST_ASSIGN_OR_RETURN(train::CheckpointState state, checkpoint.State());
  const std::string& model = state.extra[train::kModelKey];
  if (train::DescribesImageClassifier(model)) {
    return train::ImageClassifierConfigFromJson(model, path);
  }
  return train::LanguageConfigFromJson(model, path);
}

absl::StatusOr<AnyConfig> ConfigOf(const InspectOptions& options) {
  if (options.model.empty() == options.run.empty()) {
    return absl::InvalidArgumentError("give one of --model NAME and --run FOLDER");
  }
  return options.run.empty() ? NamedConfig(options.model) : ConfigOfRun(options.run);
}

// Declares the model without allocating it, so that the largest can be looked at on any machine.
void Declare(const models::LanguageConfig& config, ParameterSet& params) {
  const models::LanguageModel model(params.Root(), config);
}
void Declare(const models::ImageClassifierConfig& config, ParameterSet& params) {
  const models::ImageClassifier model(params.Root(), config);
}

// What a language model has besides, as published sizes count it.
std::string WithoutPositions(const AnyConfig& config, int64_t total) {
  const auto* language = std::get_if<models::LanguageConfig>(&config);
  if (language == nullptr) return "";
  return absl::StrCat(" (", train::FormatCount(total - language->context * language->width),
                      " without position embeddings)");
}

absl::Status InspectParameters(const InspectOptions& options) {
  TOST_ASSIGN_OR_RETURN(const AnyConfig config, ConfigOf(options));
  ParameterSet params(Device::Cpu(), /*seed=*/0);
  std::visit([&](const auto& c) { Declare(c, params); }, config);
  int64_t decayed = 0;
  for (const Parameter& parameter : params.parameters()) {
    const bool decays = parameter.decay() == Decay::kYes;
    if (decays) decayed += parameter.shape().numel();
    std::printf("%-44s %-16s %s\n", parameter.name().c_str(), parameter.shape().ToString().c_str(),
                decays ? "decay" : "no decay");
  }
  for (const State& state : params.states()) {
    std::printf("%-44s %-16s %s\n", state.name().c_str(), state.shape().ToString().c_str(),
                "statistic, not trained");
  }
  const int64_t total = params.element_count();
  std::printf("total %s parameters%s: %s with decay, %s without\n",
              train::FormatCount(total).c_str(), WithoutPositions(config, total).c_str(),
              train::FormatCount(decayed).c_str(), train::FormatCount(total - decayed).c_str());
  if (std::holds_alternative<models::LanguageConfig>(config)) {
    std::printf("lm_head.weight is tied to transformer.wte.weight and counted once\n");
  }
  return absl::OkStatus();
}

int64_t ParametersOf(const auto& config) {
  ParameterSet params(Device::Cpu(), /*seed=*/0);
  Declare(config, params);
  return params.element_count();
}

void ListLanguageModels() {
  std::printf("%-42s %6s %6s %6s %8s %11s %14s\n", "language model", "layers", "heads", "width",
              "context", "vocabulary", "parameters");
  for (const std::string& name : models::LanguageVariantNames()) {
    const models::LanguageConfig config = TOST_CHECK_VALUE(models::LanguageVariant(name));
    std::printf("%-42s %6d %6d %6d %8lld %11lld %14s\n", name.c_str(), config.layers, config.heads,
                config.width, static_cast<long long>(config.context),
                static_cast<long long>(config.vocabulary),
                train::FormatCount(ParametersOf(config)).c_str());
  }
}

void ListImageModels() {
  std::printf("%-42s %6s %6s %6s %8s %5s %8s %14s\n", "image classifier", "blocks", "heads",
              "width", "picture", "patch", "classes", "parameters");
  for (const std::string& name : models::ImageVariantNames()) {
    const models::ImageClassifierConfig config = TOST_CHECK_VALUE(models::ImageVariant(name));
    std::visit(
        [&](const auto& c) {
          std::printf("%-42s %6d %6d %6d %8lld %5d %8lld %14s\n", name.c_str(), c.depth, c.heads,
                      c.width, static_cast<long long>(c.image_size), c.patch,
                      static_cast<long long>(c.classes),
                      train::FormatCount(ParametersOf(models::ImageClassifierConfig(c))).c_str());
        },
        config);
  }
}

absl::Status InspectModels() {
  ListLanguageModels();
  std::printf("\n");
  ListImageModels();
  return absl::OkStatus();
}

void AddInspectAugment(CLI::App& inspect, Commands& commands) {
  struct Options {
    train::VisionTrainingOptions run;
    int64_t update = 1;
    std::string sheet;
  };
  Command& command = commands.emplace_back(
      inspect, "augment", "A contact sheet of what training with these settings sees",
      "tost inspect augment --config trainers/recipes/tost_small_cifar10.toml --data "
      "cifar-10-batches-bin --sheet sheet.png");
  auto options = std::make_shared<Options>();
  command.app()
      ->add_option("--config", "Settings file (TOML) of a run; options given here win")
      ->type_name("FILE");
  command.Add("sheet", options->sheet, "PNG file to write")->required();
  command.Add("update", options->update, "The update whose pictures are drawn");
  AddVisionSettings(command, options->run);
  command.set_run(
      [options] { return train::InspectAugment(options->run, options->update, options->sheet); });
}

}  // namespace

void AddInspectCommands(CLI::App& app, Commands& commands) {
  CLI::App* inspect = app.add_subcommand("inspect", "Look into models and runs");
  inspect->require_subcommand(1);
  Command& parameters = commands.emplace_back(
      *inspect, "parameters", "Every parameter with its shape and decay group, and the total",
      "tost inspect parameters --model tost_base");
  auto options = std::make_shared<InspectOptions>();
  parameters.Add("model", options->model, "Named model");
  parameters.Add("run", options->run, "Run folder or checkpoint file");
  parameters.set_run([options] { return InspectParameters(*options); });

  Command& models = commands.emplace_back(*inspect, "models", "The named models and their sizes",
                                          "tost inspect models");
  models.set_run(&InspectModels);
  AddInspectAugment(*inspect, commands);
}

}  // namespace tost
