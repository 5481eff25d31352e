#include "trainers/export_files.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "autograd/base/errors.h"
#include "data/atomic_file.h"
#include "data/tokenizer.h"
#include "trainers/progress.h"
#include "trainers/safetensors.h"
#include "trainers/vision_run.h"

namespace tost::train {
namespace {

namespace fs = std::filesystem;

absl::Status WriteTensors(const std::string& path, const ExportPlan& plan, DType dtype) {
  std::vector<TensorEntry> entries;
  for (const ExportedTensor& tensor : plan.tensors) {
    const Tensor empty = Tensor::Empty({0}, tensor.dtype.value_or(dtype));
    TensorEntry entry = EntryFor(tensor.name, empty);
    entry.shape = tensor.shape;
    entries.push_back(std::move(entry));
  }
  TOST_ASSIGN_OR_RETURN(SafetensorsWriter writer,
                        SafetensorsWriter::Create(path, std::move(entries), plan.metadata));
  for (const ExportedTensor& tensor : plan.tensors) {
    const DType wanted = tensor.dtype.value_or(dtype);
    const Tensor values = tensor.values();
    TOST_RETURN_IF_ERROR(
        writer.Append(values.dtype() == wanted ? values : Converted(values, wanted)));
  }
  return writer.Commit();
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
    for (const char* name : {kWeightsFile, kArchitectureFile, kTokenizerConfigFile, kTokensFile,
                             kMergesFile, data::kTokenizerFile, kClassesFile}) {
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

}  // namespace

std::vector<int64_t> ExtentsOf(const Shape& shape) {
  return {shape.extents().begin(), shape.extents().end()};
}

absl::StatusOr<DType> ExportDType(absl::string_view name) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    if (name == Name(dtype)) return dtype;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--dtype is float32 or bfloat16, not '", name, "'"));
}

absl::Status WriteExport(const ExportOptions& options, DType dtype, const ExportPlan& plan,
                         int64_t parameters) {
  TOST_RETURN_IF_ERROR(PrepareFolder(options.output, options.overwrite));
  const std::string folder = absl::StrCat(options.output, "/");
  TOST_RETURN_IF_ERROR(WriteTensors(folder + kWeightsFile, plan, dtype));
  std::printf("weights      %s%s: %zu tensors, %s parameters, %s\n", folder.c_str(), kWeightsFile,
              plan.tensors.size(), FormatCount(parameters).c_str(), options.dtype.c_str());
  for (const ExportedFile& file : plan.files) {
    TOST_RETURN_IF_ERROR(data::WriteFileAtomically(folder + file.name, file.content));
    std::printf("             %s%s\n", folder.c_str(), file.name.c_str());
  }
  return absl::OkStatus();
}

absl::Status CompareLogits(std::span<const float> before, std::span<const float> after, DType dtype,
                           const std::string& output) {
  double largest = 0, difference = before.size() == after.size() ? 0 : INFINITY;
  for (size_t i = 0; i < std::min(before.size(), after.size()); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(before[i])));
    const double gap = std::abs(static_cast<double>(before[i]) - static_cast<double>(after[i]));
    if (std::isnan(gap) || gap > difference) difference = gap;
    if (std::isnan(difference)) break;
  }
  const double relative = dtype == DType::kFloat32 ? kExportFloatBound : kExportBFloat16Bound;
  const double bound = relative * largest;
  std::printf("check        maximum logit difference %.2e (largest logit %.3g, bound %.2e)\n",
              difference, largest, bound);
  if (difference <= bound) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(output, ": the exported model's logits differ by ",
                                          difference, ", more than the bound of ", bound));
}

}  // namespace tost::train
