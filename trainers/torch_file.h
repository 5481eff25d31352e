// PyTorch's files (.pt, .pth, pytorch_model.bin) without Python: the zip archives that torch.save
// has written since version 1.6.
//
//   TOST_ASSIGN_OR_RETURN(TorchFile file, TorchFile::Open("checkpoint.pt"));
//   file.root().Find("epoch");                                  plain values
//   TOST_ASSIGN_OR_RETURN(auto tensors, file.StateDict());      names and views of storages
//
// An archive holds data.pkl, a pickle of whatever was saved, and each storage as a record data/KEY.
// See PyTorch's torch/serialization.py and caffe2/serialize/inline_container.h.
#ifndef TOST_TRAINERS_TORCH_FILE_H_
#define TOST_TRAINERS_TORCH_FILE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trainers/pickle.h"

namespace tost::train {

// A view of a storage: which elements, in which order, a tensor is. Equal views are one tensor.
struct TorchTensor {
  std::string storage;  // its record's key
  std::string dtype;    // as the safetensors format spells it
  int64_t offset = 0;   // of the first element, in elements
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // in elements

  int64_t element_count() const;
  friend bool operator==(const TorchTensor&, const TorchTensor&) = default;
};

struct NamedTorchTensor {
  std::string name;
  TorchTensor tensor;
};

class TorchFile {
 public:
  // Reads everything but the storages. One line each: the format before 1.6, a TorchScript archive,
  // a zip of something else, big-endian storages, a cut or damaged archive, a pickle that asks for
  // anything but tensors and plain values (see Pickle).
  static absl::StatusOr<TorchFile> Open(const std::string& path);

  const std::string& path() const { return path_; }
  const PickleValue& root() const { return pickle_.root(); }

  // The tensor that a value is, or that a parameter holds. Every element lies in its storage, and
  // there are no more of them than the storage has. `name` is for the error otherwise.
  absl::StatusOr<TorchTensor> TensorOf(const PickleValue& value, absl::string_view name) const;

  // The tensors of the dictionary that the file is, or has as "model", "state_dict",
  // "model_state_dict" or "model_ema", the first of them; in its order. An error when there is
  // none, or when it holds anything else.
  absl::StatusOr<std::vector<NamedTorchTensor>> StateDict() const;

  // Calls `visit` once for each of `tensors`, in the order of the storages in the file, with its
  // elements, row-major. One storage at a time is in memory. Errors end it: those of `visit`, and
  // bytes that do not have the archive's checksum.
  using Visit = absl::FunctionRef<absl::Status(size_t index, std::span<const std::byte> elements)>;
  absl::Status ReadTensors(std::span<const TorchTensor> tensors, Visit visit) const;
  // One tensor. Real and whole numbers as FloatsOf and IntegersOf give them.
  absl::StatusOr<std::vector<float>> ReadFloats(const TorchTensor& tensor) const;
  absl::StatusOr<std::vector<int64_t>> ReadIntegers(const TorchTensor& tensor) const;

 private:
  TorchFile(std::string path, Pickle pickle, std::map<std::string, int64_t> storages);

  std::string path_;
  Pickle pickle_;
  std::map<std::string, int64_t> storages_;  // bytes of each record under data/
};

}  // namespace tost::train

#endif  // TOST_TRAINERS_TORCH_FILE_H_
