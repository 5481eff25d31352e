#include "trainers/export_language.h"

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "autograd/base/errors.h"
#include "autograd/base/philox.h"
#include "nlohmann/json.hpp"
#include "trainers/architecture_files.h"
#include "trainers/import_language.h"
#include "trainers/language_layout.h"
#include "trainers/language_run.h"

namespace tost::train {
namespace {

constexpr int64_t kCheckTokens = 64;

std::vector<ExportedTensor> OfficialTensors(const LanguageRun& run) {
  std::vector<ExportedTensor> tensors;
  for (const Parameter& parameter : run.params->parameters()) {
    tensors.push_back({parameter.name(), ExtentsOf(parameter.shape()),
                       [&parameter] { return parameter.value(); }});
  }
  return tensors;
}

// "transformer.h.3.gamma2" for "transformer.h.3.mlp.c_proj.weight", gamma1 for the attention's, and
// "" for parameters whose output no LayerScale multiplies.
std::string ScaleOf(absl::string_view name) {
  if (!absl::ConsumeSuffix(&name, ".weight") && !absl::ConsumeSuffix(&name, ".bias")) return "";
  if (absl::ConsumeSuffix(&name, "attn.c_proj")) return absl::StrCat(name, "gamma1");
  if (absl::ConsumeSuffix(&name, "mlp.c_proj")) return absl::StrCat(name, "gamma2");
  return "";
}

// The values with row i multiplied by scale[i] (γ ⊙ (W x + b) = (γ ⊙ W) x + γ ⊙ b), and then
// transposed if asked for.
Tensor HuggingFaceValues(const Tensor& values, const Parameter* scale, bool transposed) {
  const std::vector<float> in = values.ToHost();
  const auto rows = static_cast<size_t>(values.shape()[0]);
  const size_t columns = in.size() / rows;
  const std::vector<float> factors =
      scale == nullptr ? std::vector<float>(rows, 1.0f) : scale->value().ToHost();
  std::vector<float> out(in.size());
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < columns; ++c) {
      out[transposed ? c * rows + r : r * columns + c] = in[r * columns + c] * factors[r];
    }
  }
  const Shape shape = transposed ? Shape{values.shape()[1], values.shape()[0]} : values.shape();
  return Tensor::FromHost(shape, out);
}

std::vector<ExportedTensor> HuggingFaceTensors(const LanguageRun& run) {
  std::vector<ExportedTensor> tensors;
  for (const Parameter& parameter : run.params->parameters()) {
    const std::string& name = parameter.name();
    if (absl::EndsWith(name, ".gamma1") || absl::EndsWith(name, ".gamma2")) continue;
    const bool transposed = IsLinearWeight(name);
    const Parameter* scale = run.params->Find(ScaleOf(name));
    std::vector<int64_t> shape = ExtentsOf(parameter.shape());
    const int64_t outputs = shape[0];
    if (transposed) std::ranges::reverse(shape);
    tensors.push_back({name, std::move(shape), [&parameter, scale, transposed] {
                         return HuggingFaceValues(parameter.value(), scale, transposed);
                       }});
    const bool norm = absl::StrContains(name, ".ln_") && absl::EndsWith(name, ".weight");
    if (run.config.bias || !(transposed || norm)) continue;
    tensors.push_back({absl::StrCat(absl::StripSuffix(name, "weight"), "bias"),
                       {outputs},
                       [outputs] { return Tensor::Zeros(Shape{outputs}, DType::kFloat32); }});
  }
  return tensors;
}

std::vector<ExportedFile> TokenizerFiles(const data::Tokenizer& tokenizer) {
  if (const data::BytePairEncoding* pairs = tokenizer.byte_pairs()) {
    return {{kTokensFile, pairs->tables().tokens}, {kMergesFile, pairs->tables().merges}};
  }
  return {{data::kTokenizerFile, tokenizer.ToJson()}};
}

// What AutoTokenizer needs besides the tables.
ExportedFile TokenizerConfig(const data::Tokenizer& tokenizer, int64_t context) {
  nlohmann::ordered_json config = {{"tokenizer_class", "GPT2Tokenizer"},
                                   {"model_max_length", context},
                                   {"add_prefix_space", false}};
  if (const std::optional<int32_t> end = tokenizer.end_of_text()) {
    const std::string text = tokenizer.Decode(std::span(&*end, 1));
    for (const char* key : {"bos_token", "eos_token", "unk_token"}) config[key] = text;
  }
  return {kTokenizerConfigFile, absl::StrCat(config.dump(2), "\n")};
}

ExportPlan OfficialPlan(const LanguageRun& run) {
  const std::string architecture = ToJson(run.config);
  ExportPlan plan{.tensors = OfficialTensors(run),
                  .metadata = {{"format", "pt"},
                               {kModelKey, architecture},
                               {"tied", "lm_head.weight=transformer.wte.weight"}},
                  .files = {{kArchitectureFile, absl::StrCat(architecture, "\n")}}};
  return plan;
}

absl::StatusOr<ExportPlan> HuggingFacePlan(const LanguageRun& run, const std::string& dtype) {
  if (run.config.mixer != models::Mixer::kAttention) {
    return absl::InvalidArgumentError(
        absl::StrCat(run.checkpoint,
                     " is a ToST model, which Hugging Face's library does not "
                     "have; export it with --format official"));
  }
  const std::optional<int32_t> end =
      run.tokenizer.has_value() ? run.tokenizer->end_of_text() : std::nullopt;
  ExportPlan plan{.tensors = HuggingFaceTensors(run),
                  .metadata = {{"format", "pt"}},
                  .files = {{kArchitectureFile, HuggingFaceConfig(run.config, dtype, end)}}};
  if (run.tokenizer.has_value() && run.tokenizer->byte_pairs() != nullptr) {
    plan.files.push_back(TokenizerConfig(*run.tokenizer, run.config.context));
  }
  return plan;
}

absl::StatusOr<ExportPlan> PlanOf(const LanguageRun& run, const ExportOptions& options) {
  ExportPlan plan;
  if (options.format == "official") {
    plan = OfficialPlan(run);
  } else if (options.format == "huggingface") {
    TOST_ASSIGN_OR_RETURN(plan, HuggingFacePlan(run, options.dtype));
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("--format is official or huggingface, not '", options.format, "'"));
  }
  if (run.tokenizer.has_value()) {
    std::vector<ExportedFile> files = TokenizerFiles(*run.tokenizer);
    std::ranges::move(files, std::back_inserter(plan.files));
  }
  return plan;
}

std::vector<float> LogitsOf(const models::LanguageModel& model) {
  const int64_t count = std::min(kCheckTokens, model.config().context);
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<int32_t>(Uniform(RandomKey{}, 0, i) *
                                       static_cast<float>(model.config().vocabulary)));
  }
  models::Pass pass;
  return model.Logits(Tensor::FromHost(Shape{1, count}, ids), pass).ToHost();
}

absl::Status CheckExport(const LanguageRun& run, const ExportOptions& options, DType dtype) {
  TOST_ASSIGN_OR_RETURN(
      const ImportedLanguage imported,
      ReadLanguageModel({.from = options.output, .tokenizer = run.tokenizer ? "" : "none"}));
  return CompareLogits(LogitsOf(*run.model), LogitsOf(*imported.model), dtype, options.output);
}

}  // namespace

absl::Status ExportLanguage(const ExportOptions& options) {
  TOST_ASSIGN_OR_RETURN(const DType dtype, ExportDType(options.dtype));
  TOST_ASSIGN_OR_RETURN(const LanguageRun run, LoadLanguageRun(options.run, DType::kFloat32));
  TOST_ASSIGN_OR_RETURN(const ExportPlan plan, PlanOf(run, options));
  TOST_RETURN_IF_ERROR(WriteExport(options, dtype, plan, run.params->element_count()));
  if (!run.tokenizer.has_value()) std::printf("tokenizer    none: the run has bare token ids\n");
  return options.check ? CheckExport(run, options, dtype) : absl::OkStatus();
}

}  // namespace tost::train
