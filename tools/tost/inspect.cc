// tost inspect parameters, tost inspect models
#include <cstdio>
#include <memory>

#include "models/language_model.h"
#include "models/variants.h"
#include "tools/tost/command_line.h"
#include "trainers/language_run.h"
#include "trainers/progress.h"

namespace tost {
namespace {

struct InspectOptions {
  std::string model;
  std::string run;
};

absl::StatusOr<models::LanguageConfig> ConfigOf(const InspectOptions& options) {
  if (options.model.empty() == options.run.empty()) {
    return absl::InvalidArgumentError("give one of --model NAME and --run FOLDER");
  }
  if (!options.model.empty()) return models::LanguageVariant(options.model);
  TOST_ASSIGN_OR_RETURN(const train::LanguageRunHeader header,
                        train::ReadLanguageRunHeader(options.run));
  return header.config;
}

// Declares the model without allocating it, so that the largest can be looked at on any machine.
absl::Status InspectParameters(const InspectOptions& options) {
  TOST_ASSIGN_OR_RETURN(const models::LanguageConfig config, ConfigOf(options));
  ParameterSet params(Device::Cpu(), /*seed=*/0);
  const models::LanguageModel model(params.Root(), config);
  int64_t decayed = 0;
  for (const Parameter& parameter : params.parameters()) {
    const bool decays = parameter.decay() == Decay::kYes;
    if (decays) decayed += parameter.shape().numel();
    std::printf("%-44s %-16s %s\n", parameter.name().c_str(), parameter.shape().ToString().c_str(),
                decays ? "decay" : "no decay");
  }
  const int64_t total = params.element_count();
  const int64_t positions = config.context * config.width;
  std::printf("total %s parameters (%s without position embeddings): %s with decay, %s without\n",
              train::FormatCount(total).c_str(), train::FormatCount(total - positions).c_str(),
              train::FormatCount(decayed).c_str(), train::FormatCount(total - decayed).c_str());
  std::printf("lm_head.weight is tied to transformer.wte.weight and counted once\n");
  return absl::OkStatus();
}

absl::Status InspectModels() {
  std::printf("%-24s %6s %6s %6s %8s %11s %14s\n", "model", "layers", "heads", "width", "context",
              "vocabulary", "parameters");
  for (const std::string& name : models::LanguageVariantNames()) {
    TOST_ASSIGN_OR_RETURN(const models::LanguageConfig config, models::LanguageVariant(name));
    ParameterSet params(Device::Cpu(), /*seed=*/0);
    const models::LanguageModel model(params.Root(), config);
    std::printf("%-24s %6d %6d %6d %8lld %11lld %14s\n", name.c_str(), config.layers, config.heads,
                config.width, static_cast<long long>(config.context),
                static_cast<long long>(config.vocabulary),
                train::FormatCount(params.element_count()).c_str());
  }
  return absl::OkStatus();
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
}

}  // namespace tost
