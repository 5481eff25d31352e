#include "trainers/import_vision.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "autograd/base/errors.h"
#include "data/atomic_file.h"
#include "trainers/progress.h"
#include "trainers/vision_layout.h"
#include "trainers/vision_run.h"

namespace tost::train {
namespace {

absl::StatusOr<VisionStatements> StatementsOf(const ImportOptions& options,
                                              const ImportSource& source, const WeightFile& file) {
  VisionStatements stated{.heads = options.heads, .image_size = options.image_size};
  TOST_ASSIGN_OR_RETURN(const std::vector<Description> descriptions, DescriptionsOf(source, file));
  for (const Description& description : descriptions) {
    TOST_ASSIGN_OR_RETURN(stated.config,
                          ImageClassifierConfigFromJson(description.json, description.source));
    stated.config_source = description.source;
  }
  return stated;
}

absl::Status ReadWeights(const WeightFile& file, const VisionLayout& layout, ParameterSet& params) {
  std::map<size_t, Tensor> targets;
  std::vector<size_t> entries;
  const auto add = [&](const std::string& name, const Tensor& value) {
    const size_t entry = layout.used.at(name);
    targets[entry] = value;
    entries.push_back(entry);
  };
  for (const Parameter& parameter : params.parameters()) add(parameter.name(), parameter.value());
  for (const State& state : params.states()) add(state.name(), state.value());
  return file.ReadFloats(entries, [&](size_t entry, std::span<const float> values) {
    std::ranges::copy(values, targets.at(entry).mutable_data<float>());
    return absl::OkStatus();
  });
}

// classes.json of our exports.
absl::StatusOr<std::vector<std::string>> ClassNamesIn(const ImportSource& source, int64_t classes) {
  const std::string path = absl::StrCat(source.folder, kClassesFile);
  if (source.folder.empty() || !FileExists(path)) return std::vector<std::string>();
  TOST_ASSIGN_OR_RETURN(const std::string text, data::ReadFile(path));
  TOST_ASSIGN_OR_RETURN(std::vector<std::string> names, ClassNamesFromJson(text, classes, path));
  return names;
}

std::string Describe(const models::ImageClassifierConfig& config) {
  const auto common = [](const char* family, const auto& c) {
    return absl::StrCat(family, ": depth ", c.depth, ", heads ", c.heads, ", width ", c.width,
                        ", patch ", c.patch, ", image size ", c.image_size, ", classes ",
                        c.classes);
  };
  if (const auto* crate = std::get_if<models::CrateConfig>(&config)) return common("CRATE", *crate);
  const auto& vision = std::get<models::VisionConfig>(config);
  const char* family = vision.mixer == models::VisionMixer::kTssa        ? "ToST"
                       : vision.mixer == models::VisionMixer::kAttention ? "ViT"
                                                                         : "XCiT";
  return absl::StrCat(common(family, vision), ", class-attention blocks ", vision.class_blocks,
                      vision.feed_forward == models::FeedForward::kIsta ? ", ISTA" : "",
                      vision.normalized_memberships ? "" : ", memberships not normalised");
}

std::vector<std::string> Report(const WeightFile& file, const VisionLayout& layout,
                                const ImportedVision& imported) {
  std::vector<std::string> report = {
      ReportLine("source", absl::StrCat(file.path(), " (", file.format(), ")")),
      ReportLine("architecture", Describe(imported.config)),
      ReportLine("parameters", FormatCount(imported.params->element_count())),
      ReportLine("class names", imported.class_names.empty()
                                    ? "none"
                                    : absl::StrCat(imported.class_names[0], ", …"))};
  if (!layout.prefix.empty()) {
    report.push_back(
        ReportLine("prefix", absl::StrCat("\"", layout.prefix, "\" taken off all names")));
  }
  if (!layout.counters.empty()) {
    report.push_back(ReportLine("ignored", absl::StrCat(layout.counters.size(),
                                                        " counters num_batches_tracked, which "
                                                        "play no part")));
  }
  return report;
}

}  // namespace

absl::StatusOr<ImportedVision> ReadVisionModel(const ImportOptions& options) {
  TOST_ASSIGN_OR_RETURN(const ImportSource source, ImportSourceOf(options.from));
  TOST_ASSIGN_OR_RETURN(const WeightFile file, OpenForImport(source));
  if (!options.tokenizer.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--tokenizer is for language models, and ",
                                                   file.path(), " is an image classifier"));
  }
  TOST_ASSIGN_OR_RETURN(const VisionStatements stated, StatementsOf(options, source, file));
  TOST_ASSIGN_OR_RETURN(const VisionLayout layout,
                        VisionLayoutOf(file.entries(), stated, file.path()));
  ImportedVision imported{.config = layout.config};
  TOST_ASSIGN_OR_RETURN(imported.class_names,
                        ClassNamesIn(source, models::classes(imported.config)));
  imported.params = std::make_unique<ParameterSet>(Device::Cpu(), /*seed=*/0);
  imported.model =
      std::make_unique<models::ImageClassifier>(imported.params->Root(), imported.config);
  imported.params->Finalize();
  TOST_RETURN_IF_ERROR(ReadWeights(file, layout, *imported.params));
  imported.report = Report(file, layout, imported);
  return imported;
}

absl::Status ImportVision(const ImportOptions& options) {
  TOST_ASSIGN_OR_RETURN(const ImportedVision imported, ReadVisionModel(options));
  CheckpointState state{.extra = {{kModelKey, ToJson(imported.config)}}};
  if (!imported.class_names.empty()) {
    state.extra[kClassesKey] = ClassNamesToJson(imported.class_names);
  }
  return WriteImportedRun(options, *imported.params, state, imported.report);
}

}  // namespace tost::train
