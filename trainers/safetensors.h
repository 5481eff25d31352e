// Files of named tensors in the safetensors format (github.com/huggingface/safetensors): 8 bytes
// header length, a JSON header of names, types, shapes and byte ranges, then the bytes.
#ifndef TOST_TRAINERS_SAFETENSORS_H_
#define TOST_TRAINERS_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "autograd/tensor.h"
#include "data/atomic_file.h"
#include "trainers/safetensors_header.h"

namespace tost::train {

// A file opened for reading. The header is checked against the size of the file, so every range
// lies inside it; tensor bytes are read on demand.
class SafetensorsFile {
 public:
  static absl::StatusOr<SafetensorsFile> Open(const std::string& path);
  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) = delete;
  ~SafetensorsFile();

  const std::string& path() const { return path_; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  const std::vector<TensorEntry>& tensors() const { return header_.tensors; }  // in file order
  const TensorEntry* Find(absl::string_view name) const;                       // null: absent

  // The bytes of an entry from byte `first` of it on, as many as `out` holds.
  absl::Status ReadBytes(const TensorEntry& entry, int64_t first, std::span<std::byte> out) const;
  // All elements, converted to float (F64, F32, F16, BF16) or, if integers, exactly converted to T.
  absl::StatusOr<std::vector<float>> ReadFloats(const TensorEntry& entry) const;
  absl::StatusOr<std::vector<int64_t>> ReadIntegers(const TensorEntry& entry) const;
  // A host tensor: F32, F64, BF16, I32 and U16 keep their type, F16 becomes float32, other integers
  // int32. An error when the name is absent, a value does not fit, or the rank exceeds Shape's.
  absl::StatusOr<Tensor> ReadTensor(absl::string_view name) const;

 private:
  SafetensorsFile(std::string path, int descriptor, SafetensorsHeader header);

  std::string path_;
  int descriptor_;
  SafetensorsHeader header_;
  absl::flat_hash_map<std::string, size_t> by_name_;
};

// Writes a file tensor by tensor, without holding more than a few MiB of it. `path` appears,
// complete, with Commit; on any error, or without Commit, what was there before stays.
class SafetensorsWriter {
 public:
  // `tensors` gives names, types and shapes in the order in which Append will bring the values; the
  // ranges are filled in here.
  static absl::StatusOr<SafetensorsWriter> Create(
      const std::string& path, std::vector<TensorEntry> tensors,
      const std::map<std::string, std::string>& metadata);

  // The next tensor's values, from any device. CHECKs type and element count against its entry.
  absl::Status Append(const Tensor& values);
  absl::Status Commit();

 private:
  SafetensorsWriter(data::AtomicFile file, std::vector<TensorEntry> tensors);

  data::AtomicFile file_;
  std::vector<TensorEntry> tensors_;
  size_t next_ = 0;
};

// The entry that describes a tensor (type and shape; no range yet).
TensorEntry EntryFor(absl::string_view name, const Tensor& tensor);

// A whole file at once.
absl::Status WriteSafetensors(const std::string& path,
                              const std::vector<std::pair<std::string, Tensor>>& tensors,
                              const std::map<std::string, std::string>& metadata = {});

}  // namespace tost::train

#endif  // TOST_TRAINERS_SAFETENSORS_H_
