#include "trainers/export_language.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "autograd/base/errors.h"
#include "autograd/base/philox.h"
#include "data/atomic_file.h"
#include "nlohmann/json.hpp"
#include "trainers/architecture_files.h"
#include "trainers/import_language.h"
#include "trainers/language_layout.h"
#include "trainers/language_run.h"
#include "trainers/progress.h"
#include "trainers/safetensors.h"

namespace tost::train {
namespace {

namespace fs = std::filesystem;

constexpr char kWeights[] = "model.safetensors";
constexpr char kArchitecture[] = "config.json";
constexpr char kTokenizerConfig[] = "tokenizer_config.json";
constexpr char kTokens[] = "vocab.json";
constexpr char kMerges[] = "merges.txt";
constexpr int64_t kCheckTokens = 64;

// A tensor of the export, made when it is written.
struct ExportedTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::function<Tensor()> values;  // float32
};

std::vector<int64_t> ExtentsOf(const Shape& shape) {
  return {shape.extents().begin(), shape.extents().end()};
}

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

absl::Status WriteTensors(const std::string& path, const std::vector<ExportedTensor>& tensors,
                          DType dtype, const std::map<std::string, std::string>& metadata) {
  std::vector<TensorEntry> entries;
  for (const ExportedTensor& tensor : tensors) {
    entries.push_back({.name = tensor.name,
                       .dtype = dtype == DType::kBFloat16 ? "BF16" : "F32",
                       .shape = tensor.shape});
  }
  TOST_ASSIGN_OR_RETURN(SafetensorsWriter writer,
                        SafetensorsWriter::Create(path, std::move(entries), metadata));
  for (const ExportedTensor& tensor : tensors) {
    const Tensor values = tensor.values();
    TOST_RETURN_IF_ERROR(
        writer.Append(dtype == DType::kFloat32 ? values : Converted(values, dtype)));
  }
  return writer.Commit();
}

struct SmallFile {
  std::string name;
  std::string content;
};

std::vector<SmallFile> TokenizerFiles(const data::Tokenizer& tokenizer) {
  if (const data::BytePairEncoding* pairs = tokenizer.byte_pairs()) {
    return {{kTokens, pairs->tables().tokens}, {kMerges, pairs->tables().merges}};
  }
  return {{data::kTokenizerFile, tokenizer.ToJson()}};
}

// What AutoTokenizer needs besides the tables.
SmallFile TokenizerConfig(const data::Tokenizer& tokenizer, int64_t context) {
  nlohmann::ordered_json config = {{"tokenizer_class", "GPT2Tokenizer"},
                                   {"model_max_length", context},
                                   {"add_prefix_space", false}};
  if (const std::optional<int32_t> end = tokenizer.end_of_text()) {
    const std::string text = tokenizer.Decode(std::span(&*end, 1));
    for (const char* key : {"bos_token", "eos_token", "unk_token"}) config[key] = text;
  }
  return {kTokenizerConfig, absl::StrCat(config.dump(2), "\n")};
}

struct Plan {
  std::vector<ExportedTensor> tensors;
  std::map<std::string, std::string> metadata;
  std::vector<SmallFile> files;
};

Plan OfficialPlan(const LanguageRun& run) {
  const std::string architecture = ToJson(run.config);
  Plan plan{.tensors = OfficialTensors(run),
            .metadata = {{"format", "pt"},
                         {kModelKey, architecture},
                         {"tied", "lm_head.weight=transformer.wte.weight"}},
            .files = {{kArchitecture, absl::StrCat(architecture, "\n")}}};
  return plan;
}

absl::StatusOr<Plan> HuggingFacePlan(const LanguageRun& run, const std::string& dtype) {
  if (run.config.mixer != models::Mixer::kAttention) {
    return absl::InvalidArgumentError(
        absl::StrCat(run.checkpoint,
                     " is a ToST model, which Hugging Face's library does not "
                     "have; export it with --format official"));
  }
  const std::optional<int32_t> end =
      run.tokenizer.has_value() ? run.tokenizer->end_of_text() : std::nullopt;
  Plan plan{.tensors = HuggingFaceTensors(run),
            .metadata = {{"format", "pt"}},
            .files = {{kArchitecture, HuggingFaceConfig(run.config, dtype, end)}}};
  if (run.tokenizer.has_value() && run.tokenizer->byte_pairs() != nullptr) {
    plan.files.push_back(TokenizerConfig(*run.tokenizer, run.config.context));
  }
  return plan;
}

absl::StatusOr<Plan> PlanOf(const LanguageRun& run, const ExportOptions& options) {
  Plan plan;
  if (options.format == "official") {
    plan = OfficialPlan(run);
  } else if (options.format == "huggingface") {
    TOST_ASSIGN_OR_RETURN(plan, HuggingFacePlan(run, options.dtype));
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("--format is official or huggingface, not '", options.format, "'"));
  }
  if (run.tokenizer.has_value()) {
    std::vector<SmallFile> files = TokenizerFiles(*run.tokenizer);
    std::ranges::move(files, std::back_inserter(plan.files));
  }
  return plan;
}

absl::StatusOr<DType> DTypeNamed(absl::string_view name) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    if (name == Name(dtype)) return dtype;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--dtype is float32 or bfloat16, not '", name, "'"));
}

absl::Status PrepareFolder(const std::string& path, bool overwrite) {
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_directory(path, error)) {
    return absl::AlreadyExistsError(absl::StrCat("--output ", path, " is a file; name a folder"));
  }
  fs::create_directories(path, error);
  if (error) return data::FileError("cannot make folder", path, error.value());
  const fs::directory_iterator entries(path, error);
  if (error) return data::FileError("cannot read folder", path, error.value());
  if (entries == fs::directory_iterator()) return absl::OkStatus();
  if (overwrite) {
    // An earlier export's files must not be taken for this one's.
    for (const char* name :
         {kWeights, kArchitecture, kTokenizerConfig, kTokens, kMerges, data::kTokenizerFile}) {
      fs::remove(absl::StrCat(path, "/", name), error);
      if (error)
        return data::FileError("cannot remove", absl::StrCat(path, "/", name), error.value());
    }
    return absl::OkStatus();
  }
  return absl::AlreadyExistsError(absl::StrCat(
      "--output ", path, " is not empty (it holds ", entries->path().filename().string(),
      "); write into it with --overwrite, or choose another folder"));
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
  const std::vector<float> before = LogitsOf(*run.model), after = LogitsOf(*imported.model);
  double largest = 0, difference = before.size() == after.size() ? 0 : INFINITY;
  for (size_t i = 0; i < std::min(before.size(), after.size()); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(before[i])));
    difference = std::max(difference,
                          std::abs(static_cast<double>(before[i]) - static_cast<double>(after[i])));
  }
  const double relative = dtype == DType::kFloat32 ? kExportFloatBound : kExportBFloat16Bound;
  const double bound = relative * largest;
  std::printf("check        maximum logit difference %.2e (largest logit %.3g, bound %.2e)\n",
              difference, largest, bound);
  if (difference <= bound) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(options.output,
                                          ": the exported model's logits differ by ", difference,
                                          ", more than the bound of ", bound));
}

}  // namespace

absl::Status ExportLanguage(const ExportOptions& options) {
  TOST_ASSIGN_OR_RETURN(const DType dtype, DTypeNamed(options.dtype));
  TOST_ASSIGN_OR_RETURN(const LanguageRun run, LoadLanguageRun(options.run, DType::kFloat32));
  TOST_ASSIGN_OR_RETURN(const Plan plan, PlanOf(run, options));
  TOST_RETURN_IF_ERROR(PrepareFolder(options.output, options.overwrite));
  const std::string folder = absl::StrCat(options.output, "/");
  TOST_RETURN_IF_ERROR(WriteTensors(folder + kWeights, plan.tensors, dtype, plan.metadata));
  std::printf("weights      %s%s: %zu tensors, %s parameters, %s\n", folder.c_str(), kWeights,
              plan.tensors.size(), FormatCount(run.params->element_count()).c_str(),
              options.dtype.c_str());
  for (const SmallFile& file : plan.files) {
    TOST_RETURN_IF_ERROR(data::WriteFileAtomically(folder + file.name, file.content));
    std::printf("             %s%s\n", folder.c_str(), file.name.c_str());
  }
  if (!run.tokenizer.has_value()) std::printf("tokenizer    none: the run has bare token ids\n");
  return options.check ? CheckExport(run, options, dtype) : absl::OkStatus();
}

}  // namespace tost::train
