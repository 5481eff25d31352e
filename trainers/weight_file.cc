#include "trainers/weight_file.h"

#include <fstream>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "autograd/base/errors.h"
#include "trainers/element_values.h"

namespace tost::train {
namespace {

bool IsTorchFile(const std::string& path) {
  char begin[2] = {};
  std::ifstream(path, std::ios::binary).read(begin, sizeof(begin));
  if ((begin[0] == 'P' && begin[1] == 'K') || begin[0] == '\x80') {
    // A safetensors header of 0x4b50 or 0x80 bytes begins like that too.
    return !absl::EndsWith(path, ".safetensors");
  }
  return absl::EndsWith(path, ".pt") || absl::EndsWith(path, ".pth") ||
         absl::EndsWith(path, ".bin");
}

}  // namespace

WeightFile::WeightFile(SafetensorsFile file)
    : path_(file.path()), file_(std::move(file)), entries_(std::get<0>(file_).tensors()) {}

WeightFile::WeightFile(TorchFile file, std::vector<NamedTorchTensor> tensors)
    : path_(file.path()), file_(std::move(file)) {
  for (NamedTorchTensor& named : tensors) {
    entries_.push_back(
        {.name = std::move(named.name), .dtype = named.tensor.dtype, .shape = named.tensor.shape});
    torch_tensors_.push_back(std::move(named.tensor));
  }
}

absl::StatusOr<WeightFile> WeightFile::Open(const std::string& path) {
  if (!IsTorchFile(path)) {
    TOST_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open(path));
    return WeightFile(std::move(file));
  }
  TOST_ASSIGN_OR_RETURN(TorchFile file, TorchFile::Open(path));
  TOST_ASSIGN_OR_RETURN(std::vector<NamedTorchTensor> tensors, file.StateDict());
  return WeightFile(std::move(file), std::move(tensors));
}

const char* WeightFile::format() const {
  return std::holds_alternative<TorchFile>(file_) ? "PyTorch" : "safetensors";
}

const std::map<std::string, std::string>& WeightFile::metadata() const {
  static const std::map<std::string, std::string>& none = *new std::map<std::string, std::string>;
  const auto* file = std::get_if<SafetensorsFile>(&file_);
  return file == nullptr ? none : file->metadata();
}

const PickleValue* WeightFile::values() const {
  const auto* file = std::get_if<TorchFile>(&file_);
  return file == nullptr ? nullptr : &file->root();
}

bool WeightFile::AreTheSame(size_t a, size_t b) const {
  return a == b || (!torch_tensors_.empty() && torch_tensors_[a] == torch_tensors_[b]);
}

absl::Status WeightFile::ReadFloats(std::span<const size_t> entries, Visit visit) const {
  if (const auto* file = std::get_if<SafetensorsFile>(&file_)) {
    for (const size_t entry : entries) {
      TOST_ASSIGN_OR_RETURN(const std::vector<float> values, file->ReadFloats(entries_[entry]));
      TOST_RETURN_IF_ERROR(visit(entry, values));
    }
    return absl::OkStatus();
  }
  std::vector<TorchTensor> wanted;
  for (const size_t entry : entries) wanted.push_back(torch_tensors_[entry]);
  return std::get<TorchFile>(file_).ReadTensors(
      wanted, [&](size_t i, std::span<const std::byte> elements) {
        const TensorEntry& entry = entries_[entries[i]];
        const std::optional<std::vector<float>> values = FloatsOf(entry.dtype, elements);
        if (values.has_value()) return visit(entries[i], *values);
        return absl::InvalidArgumentError(absl::StrCat(path_, ": tensor ", entry.name,
                                                       " is of type ", entry.dtype,
                                                       ", where real numbers are expected"));
      });
}

}  // namespace tost::train
