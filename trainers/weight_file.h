// A file of named tensors, in whichever format: safetensors or PyTorch's.
#ifndef TOST_TRAINERS_WEIGHT_FILE_H_
#define TOST_TRAINERS_WEIGHT_FILE_H_

#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainers/safetensors.h"
#include "trainers/torch_file.h"

namespace tost::train {

class WeightFile {
 public:
  // PyTorch's format is known by its first bytes, or else by the name's end (.pt, .pth, .bin);
  // everything else is taken for safetensors.
  static absl::StatusOr<WeightFile> Open(const std::string& path);

  const std::string& path() const { return path_; }
  const char* format() const;  // "safetensors", "PyTorch"
  // Name, type and shape of each tensor (for PyTorch: of the state dict), in the file's order.
  const std::vector<TensorEntry>& entries() const { return entries_; }
  // What a safetensors file says besides; empty for PyTorch.
  const std::map<std::string, std::string>& metadata() const;
  // What a PyTorch file holds besides the state dict; null for safetensors.
  const PickleValue* values() const;

  // Whether two entries are one tensor, as far as that is known without reading them.
  bool AreTheSame(size_t a, size_t b) const;

  // Calls `visit` once for each of the entries with its elements, row-major, one tensor in memory
  // at a time; in which order is the file's affair. An error when one does not hold real numbers.
  using Visit = absl::FunctionRef<absl::Status(size_t entry, std::span<const float> values)>;
  absl::Status ReadFloats(std::span<const size_t> entries, Visit visit) const;

 private:
  explicit WeightFile(SafetensorsFile file);
  WeightFile(TorchFile file, std::vector<NamedTorchTensor> tensors);

  std::string path_;
  std::variant<SafetensorsFile, TorchFile> file_;
  std::vector<TensorEntry> entries_;
  std::vector<TorchTensor> torch_tensors_;  // one per entry, for PyTorch
};

}  // namespace tost::train

#endif  // TOST_TRAINERS_WEIGHT_FILE_H_
