#include "trainers/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "autograd/base/errors.h"
#include "trainers/element_values.h"

namespace tost::train {
namespace {

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kElementsPerPiece = 1 << 20;

absl::Status ReadAt(int descriptor, const std::string& path, int64_t offset,
                    std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = pread(descriptor, out.data(), out.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return data::FileError("cannot read", path, errno);
    if (got == 0) {
      return absl::DataLossError(absl::StrCat(path, " ends at byte ", offset,
                                              ": it has become shorter since it was opened"));
    }
    out = out.subspan(static_cast<size_t>(got));
    offset += got;
  }
  return absl::OkStatus();
}

absl::StatusOr<SafetensorsHeader> ReadHeader(int descriptor, const std::string& path) {
  struct stat information {};
  if (fstat(descriptor, &information) != 0) return data::FileError("cannot read", path, errno);
  if (!S_ISREG(information.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a safetensors file"));
  }
  const int64_t bytes = information.st_size;
  if (bytes < kLengthBytes) {
    return absl::DataLossError(absl::StrCat(
        path, ": ", bytes, " bytes are too few for a safetensors file; copy or save it again"));
  }
  uint64_t length = 0;
  TOST_RETURN_IF_ERROR(ReadAt(descriptor, path, 0, std::as_writable_bytes(std::span(&length, 1))));
  const uint64_t room = static_cast<uint64_t>(bytes - kLengthBytes);
  if (length > room || length > static_cast<uint64_t>(kMaxHeaderBytes)) {
    return absl::DataLossError(absl::StrCat(
        path, ": not a safetensors file, or cut: it announces a header of ", length, " bytes, ",
        length > room ? absl::StrCat("and ", room, " follow")
                      : absl::StrCat("more than the limit of ", kMaxHeaderBytes)));
  }
  std::string json(length, '\0');
  TOST_RETURN_IF_ERROR(ReadAt(descriptor, path, kLengthBytes,
                              std::as_writable_bytes(std::span(json.data(), json.size()))));
  return ParseHeader(json, static_cast<int64_t>(room - length), path);
}

absl::Status WrongType(const std::string& path, const TensorEntry& entry,
                       absl::string_view wanted) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": tensor ", entry.name, " is of type ",
                                                 entry.dtype, ", where ", wanted, " are expected"));
}

const char* FormatName(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "F32";
    case DType::kBFloat16:
      return "BF16";
    case DType::kFloat64:
      return "F64";
    case DType::kInt32:
      return "I32";
    case DType::kUint16:
      return "U16";
  }
  return "?";
}

// The type of ours that holds a file's type as it is.
const DType* SameType(absl::string_view name) {
  static constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat64,
                                     DType::kInt32, DType::kUint16};
  for (const DType& dtype : kTypes) {
    if (name == FormatName(dtype)) return &dtype;
  }
  return nullptr;
}

}  // namespace

SafetensorsFile::SafetensorsFile(std::string path, int descriptor, SafetensorsHeader header)
    : path_(std::move(path)), descriptor_(descriptor), header_(std::move(header)) {
  for (size_t i = 0; i < header_.tensors.size(); ++i) by_name_[header_.tensors[i].name] = i;
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      header_(std::move(other.header_)),
      by_name_(std::move(other.by_name_)) {}

SafetensorsFile::~SafetensorsFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return data::FileError("cannot read", path, errno);
  absl::StatusOr<SafetensorsHeader> header = ReadHeader(descriptor, path);
  if (!header.ok()) {
    close(descriptor);
    return std::move(header).status();
  }
  return SafetensorsFile(path, descriptor, *std::move(header));
}

const TensorEntry* SafetensorsFile::Find(absl::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &header_.tensors[found->second];
}

absl::Status SafetensorsFile::ReadBytes(const TensorEntry& entry, int64_t first,
                                        std::span<std::byte> out) const {
  TOST_CHECK(first >= 0 && first + static_cast<int64_t>(out.size()) <= entry.end - entry.begin)
      << out.size() << " bytes from " << first << " of tensor " << entry.name;
  return ReadAt(descriptor_, path_, header_.data_offset + entry.begin + first, out);
}

absl::StatusOr<std::vector<float>> SafetensorsFile::ReadFloats(const TensorEntry& entry) const {
  std::vector<std::byte> bytes(static_cast<size_t>(entry.end - entry.begin));
  TOST_RETURN_IF_ERROR(ReadBytes(entry, 0, bytes));
  std::optional<std::vector<float>> values = FloatsOf(entry.dtype, bytes);
  if (!values.has_value()) return WrongType(path_, entry, "real numbers");
  return *std::move(values);
}

absl::StatusOr<std::vector<int64_t>> SafetensorsFile::ReadIntegers(const TensorEntry& entry) const {
  std::vector<std::byte> bytes(static_cast<size_t>(entry.end - entry.begin));
  TOST_RETURN_IF_ERROR(ReadBytes(entry, 0, bytes));
  std::optional<std::vector<int64_t>> values = IntegersOf(entry.dtype, bytes);
  if (!values.has_value()) return WrongType(path_, entry, "whole numbers");
  return *std::move(values);
}

absl::StatusOr<Tensor> SafetensorsFile::ReadTensor(absl::string_view name) const {
  const TensorEntry* entry = Find(name);
  if (entry == nullptr) {
    return absl::NotFoundError(absl::StrCat(path_, " holds no tensor ", name));
  }
  if (entry->shape.size() > static_cast<size_t>(Shape::kMaxRank)) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": tensor ", name, " has ",
                                                   entry->shape.size(), " axes, more than ",
                                                   Shape::kMaxRank));
  }
  const Shape shape{std::span<const int64_t>(entry->shape)};
  if (const DType* dtype = SameType(entry->dtype)) {
    Tensor tensor = Tensor::Empty(shape, *dtype);
    TOST_RETURN_IF_ERROR(
        ReadBytes(*entry, 0,
                  std::span(tensor.mutable_raw(), static_cast<size_t>(entry->end - entry->begin))));
    return tensor;
  }
  if (entry->dtype == "F16") {
    TOST_ASSIGN_OR_RETURN(const std::vector<float> values, ReadFloats(*entry));
    return Tensor::FromHost(shape, values);
  }
  TOST_ASSIGN_OR_RETURN(const std::vector<int64_t> values, ReadIntegers(*entry));
  std::vector<int32_t> narrow(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    narrow[i] = static_cast<int32_t>(values[i]);
    if (narrow[i] != values[i]) {
      return absl::OutOfRangeError(absl::StrCat(path_, ": element ", i, " of tensor ", name, ", ",
                                                values[i], ", does not fit 32 bits"));
    }
  }
  return Tensor::FromHost(shape, narrow);
}

SafetensorsWriter::SafetensorsWriter(data::AtomicFile file, std::vector<TensorEntry> tensors)
    : file_(std::move(file)), tensors_(std::move(tensors)) {}

absl::StatusOr<SafetensorsWriter> SafetensorsWriter::Create(
    const std::string& path, std::vector<TensorEntry> tensors,
    const std::map<std::string, std::string>& metadata) {
  int64_t offset = 0;
  for (TensorEntry& entry : tensors) {
    entry.begin = offset;
    offset += ElementBytes(entry.dtype) * entry.element_count();
    entry.end = offset;
  }
  const std::string header = FormatHeader(tensors, metadata);
  TOST_ASSIGN_OR_RETURN(
      data::AtomicFile file,
      data::AtomicFile::Create(path, static_cast<int64_t>(header.size()) + offset));
  TOST_RETURN_IF_ERROR(file.Append(std::as_bytes(std::span(header.data(), header.size()))));
  return SafetensorsWriter(std::move(file), std::move(tensors));
}

absl::Status SafetensorsWriter::Append(const Tensor& values) {
  TOST_CHECK_LT(next_, tensors_.size()) << "more tensors than were announced";
  const TensorEntry& entry = tensors_[next_++];
  TOST_CHECK(entry.dtype == FormatName(values.dtype()) && entry.element_count() == values.numel())
      << "tensor " << entry.name << " was announced as " << entry.dtype << " "
      << entry.ShapeString() << ", not " << values.dtype() << " " << values.shape();
  const auto element = static_cast<int64_t>(SizeOf(values.dtype()));
  std::vector<std::byte> piece;
  for (int64_t first = 0; first < values.numel(); first += kElementsPerPiece) {
    const int64_t count = std::min(kElementsPerPiece, values.numel() - first);
    piece.resize(static_cast<size_t>(count * element));
    RuntimeOf(values.device()).CopyOut(piece.data(), values.raw() + first * element, piece.size());
    TOST_RETURN_IF_ERROR(file_.Append(piece));
  }
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::Commit() {
  TOST_CHECK(next_ == tensors_.size()) << next_ << " of " << tensors_.size() << " tensors written";
  return file_.Publish();
}

TensorEntry EntryFor(absl::string_view name, const Tensor& tensor) {
  const std::span<const int64_t> extents = tensor.shape().extents();
  return {.name = std::string(name),
          .dtype = FormatName(tensor.dtype()),
          .shape = std::vector<int64_t>(extents.begin(), extents.end())};
}

absl::Status WriteSafetensors(const std::string& path,
                              const std::vector<std::pair<std::string, Tensor>>& tensors,
                              const std::map<std::string, std::string>& metadata) {
  std::vector<TensorEntry> entries;
  for (const auto& [name, tensor] : tensors) entries.push_back(EntryFor(name, tensor));
  TOST_ASSIGN_OR_RETURN(SafetensorsWriter writer,
                        SafetensorsWriter::Create(path, std::move(entries), metadata));
  for (const auto& [name, tensor] : tensors) TOST_RETURN_IF_ERROR(writer.Append(tensor));
  return writer.Commit();
}

}  // namespace tost::train
