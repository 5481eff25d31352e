// What the exports of all kinds of models share: options, the folder and its files, the check.
#ifndef TOST_TRAINERS_EXPORT_FILES_H_
#define TOST_TRAINERS_EXPORT_FILES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "autograd/tensor.h"

namespace tost::train {

struct ExportOptions {
  std::string run;     // run folder or checkpoint file
  std::string output;  // folder
  // "official": model.safetensors with the names of ToST and nanoGPT, the head once as the
  // embedding with the tie in the metadata; config.json, our architecture; the tokenizer's files or
  // the names of the classes. `tost import` reads it back. "huggingface": what transformers'
  // GPT2LMHeadModel.from_pretrained loads, for GPT-2 models only: linear weights transposed, zero
  // biases where the model has none, LayerScale's γ multiplied into the rows of c_proj.
  std::string format = "official";
  std::string dtype = "float32";  // or "bfloat16"
  bool check = false;
  bool overwrite = false;  // write into a folder that is not empty
};

// Names of files in the folder.
inline constexpr char kWeightsFile[] = "model.safetensors";
inline constexpr char kArchitectureFile[] = "config.json";
inline constexpr char kTokenizerConfigFile[] = "tokenizer_config.json";
inline constexpr char kTokensFile[] = "vocab.json";
inline constexpr char kMergesFile[] = "merges.txt";

// A tensor of the export, made when it is written.
struct ExportedTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::function<Tensor()> values;
  std::optional<DType> dtype = {};  // where it is another than was asked for
};

struct ExportedFile {
  std::string name;
  std::string content;
};

struct ExportPlan {
  std::vector<ExportedTensor> tensors;
  std::map<std::string, std::string> metadata;  // of model.safetensors
  std::vector<ExportedFile> files;
};

std::vector<int64_t> ExtentsOf(const Shape& shape);

// The type that --dtype names.
absl::StatusOr<DType> ExportDType(absl::string_view name);

// Makes the folder, or empties it of an earlier export's files, writes everything and prints what.
absl::Status WriteExport(const ExportOptions& options, DType dtype, const ExportPlan& plan,
                         int64_t parameters);

// Folding γ into c_proj rounds each weight once more, in every layer; some hundred roundings.
inline constexpr double kExportFloatBound = 1e-5;
// Every weight is rounded to 8 bits.
inline constexpr double kExportBFloat16Bound = 0.1;

// Prints the largest difference between the logits of a model and of its export read back; an error
// when it exceeds kExportFloatBound (float32) or kExportBFloat16Bound times the largest logit.
absl::Status CompareLogits(std::span<const float> before, std::span<const float> after, DType dtype,
                           const std::string& output);

}  // namespace tost::train

#endif  // TOST_TRAINERS_EXPORT_FILES_H_
