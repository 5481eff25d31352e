#include "trainers/export_vision.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "autograd/base/errors.h"
#include "autograd/base/philox.h"
#include "trainers/export_language.h"
#include "trainers/import_vision.h"
#include "trainers/run_kind.h"
#include "trainers/vision_run.h"

namespace tost::train {
namespace {

// The counter that PyTorch keeps beside batch norm's statistics, though with a fixed momentum
// nothing reads it. load_state_dict converts it to the type it has there.
Tensor Batches(const CheckpointState& state) {
  const int64_t count = std::min<int64_t>(state.update, std::numeric_limits<int32_t>::max());
  return Tensor::FromHost(Shape{}, std::vector<int32_t>{static_cast<int32_t>(count)});
}

std::vector<ExportedTensor> TensorsOf(const VisionRun& run) {
  std::vector<ExportedTensor> tensors;
  for (const Parameter& parameter : run.params->parameters()) {
    tensors.push_back({parameter.name(), ExtentsOf(parameter.shape()),
                       [&parameter] { return parameter.value(); }});
  }
  for (const State& state : run.params->states()) {
    tensors.push_back({state.name(), ExtentsOf(state.shape()), [&state] { return state.value(); },
                       DType::kFloat32});
    absl::string_view norm = state.name();
    if (!absl::ConsumeSuffix(&norm, "running_var")) continue;
    tensors.push_back({absl::StrCat(norm, "num_batches_tracked"),
                       {},
                       [&run] { return Batches(run.state); },
                       DType::kInt32});
  }
  return tensors;
}

ExportPlan PlanOf(const VisionRun& run) {
  const std::string architecture = ToJson(run.config);
  ExportPlan plan{.tensors = TensorsOf(run),
                  .metadata = {{"format", "pt"}, {kModelKey, architecture}},
                  .files = {{kArchitectureFile, absl::StrCat(architecture, "\n")}}};
  if (!run.class_names.empty()) {
    plan.files.push_back({kClassesFile, absl::StrCat(ClassNamesToJson(run.class_names), "\n")});
  }
  return plan;
}

std::vector<float> LogitsOf(const models::ImageClassifier& model) {
  const int64_t size = models::image_size(model.config());
  std::vector<float> pixels;
  for (int64_t i = 0; i < size * size * 3; ++i) {
    pixels.push_back(2 * Uniform(RandomKey{}, 0, i) - 1);
  }
  models::Pass pass;
  return model.Logits(Tensor::FromHost(Shape{1, size, size, 3}, pixels), pass).ToHost();
}

}  // namespace

absl::Status ExportVision(const ExportOptions& options) {
  TOST_ASSIGN_OR_RETURN(const DType dtype, ExportDType(options.dtype));
  TOST_ASSIGN_OR_RETURN(const VisionRun run, LoadVisionRun(options.run, DType::kFloat32));
  if (options.format != "official") {
    return absl::InvalidArgumentError(absl::StrCat(
        run.checkpoint, " is an image classifier, for which --format is official, not '",
        options.format, "'"));
  }
  const ExportPlan plan = PlanOf(run);
  TOST_RETURN_IF_ERROR(WriteExport(options, dtype, plan, run.params->element_count()));
  if (!options.check) return absl::OkStatus();
  TOST_ASSIGN_OR_RETURN(const ImportedVision imported, ReadVisionModel({.from = options.output}));
  return CompareLogits(LogitsOf(*run.model), LogitsOf(*imported.model), dtype, options.output);
}

absl::Status ExportModel(const ExportOptions& options) {
  TOST_ASSIGN_OR_RETURN(const RunKind kind, KindOfRun(options.run));
  return kind == RunKind::kVision ? ExportVision(options) : ExportLanguage(options);
}

}  // namespace tost::train
