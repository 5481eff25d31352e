#include "data/mat_file.h"

#include <matio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "autograd/base/errors.h"
#include "data/atomic_file.h"

namespace tost::data {
namespace {

constexpr size_t kHeader = 128;
constexpr size_t kElements = 1 << 24;

// libmatio reads files, not bytes, so they are put into one that lies in memory only.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(memfd_create("mat", MFD_CLOEXEC)) {}
  ~MemoryFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  absl::Status Write(absl::string_view bytes) const {
    if (descriptor_ < 0) return FileError("cannot create", "a file in memory", errno);
    while (!bytes.empty()) {
      const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
      if (written < 0) return FileError("cannot write", "a file in memory", errno);
      bytes.remove_prefix(static_cast<size_t>(written));
    }
    return absl::OkStatus();
  }
  std::string path() const { return absl::StrCat("/proc/self/fd/", descriptor_); }

 private:
  int descriptor_;
};

uint32_t Word(absl::string_view bytes, size_t at, bool big_endian) {
  uint32_t word = 0;
  std::memcpy(&word, bytes.data() + at, sizeof(word));
  return big_endian ? __builtin_bswap32(word) : word;
}

constexpr size_t kTag = 8;  // type and size of an element

// Elements within a matrix that is not compressed: their sizes lie within it. A size of up to four
// bytes may stand in the upper half of the type, and the content in the place of the size.
bool ElementsFit(absl::string_view matrix, bool big_endian) {
  while (!matrix.empty()) {
    if (matrix.size() < kTag) return false;
    uint64_t size = 0;
    if (Word(matrix, 0, big_endian) >> 16 == 0) size = Word(matrix, 4, big_endian);
    if (size > matrix.size() - kTag) return false;
    matrix.remove_prefix(std::min<uint64_t>(kTag + (size + 7) / 8 * 8, matrix.size()));
  }
  return true;
}

// The variables behind the header: their sizes add up to the file's.
absl::Status CheckVariables(absl::string_view bytes, absl::string_view name, bool big_endian) {
  constexpr uint32_t kMatrix = 14, kCompressed = 15;
  for (size_t at = kHeader; at < bytes.size();) {
    const bool tag = bytes.size() - at >= kTag;
    const uint32_t type = tag ? Word(bytes, at, big_endian) : 0;
    if (tag && type != kMatrix && type != kCompressed) {
      return absl::DataLossError(absl::StrCat(name, ": no variable, but an element of type ", type,
                                              " at byte ", at, "; download it again"));
    }
    const uint32_t size = tag ? Word(bytes, at + 4, big_endian) : 0;
    if (!tag || size > bytes.size() - at - kTag) {
      return absl::DataLossError(absl::StrCat(name, " is cut: the variable at byte ", at,
                                              " goes beyond its ", bytes.size(),
                                              " bytes; download it again"));
    }
    if (type == kMatrix && !ElementsFit(bytes.substr(at + kTag, size), big_endian)) {
      return absl::DataLossError(
          absl::StrCat(name, ": the variable at byte ", at, " is damaged; download it again"));
    }
    at += kTag + size;
  }
  return absl::OkStatus();
}

// libmatio is shown no file that is of another kind or cut: it would believe any size.
absl::Status CheckStructure(absl::string_view bytes, absl::string_view name) {
  if (absl::StartsWith(bytes, "MATLAB 7.3")) {
    return absl::UnimplementedError(
        absl::StrCat(name,
                     " is a MATLAB 7.3 (HDF5) file, which is not supported; save it in "
                     "MATLAB with -v7, or use the set's original file"));
  }
  const absl::string_view order =
      bytes.size() >= kHeader ? bytes.substr(kHeader - 2, 2) : absl::string_view();
  if (!absl::StartsWith(bytes, "MATLAB 5.0") || (order != "IM" && order != "MI")) {
    return absl::InvalidArgumentError(absl::StrCat(name, " is not a MATLAB 5 file (", bytes.size(),
                                                   " bytes, without its header); download it "
                                                   "again"));
  }
  return CheckVariables(bytes, name, /*big_endian=*/order == "MI");
}

const char* KindOf(matio_classes type) {
  switch (type) {
    case MAT_C_CHAR:
      return "text";
    case MAT_C_CELL:
      return "a cell array";
    case MAT_C_STRUCT:
      return "a structure";
    case MAT_C_SPARSE:
      return "a sparse matrix";
    default:
      return "of another type";
  }
}

template <class T>
absl::Status AppendAs(const matvar_t& variable, size_t count, std::vector<int64_t>& values) {
  const T* const elements = static_cast<const T*>(variable.data);
  for (size_t i = 0; i < count; ++i) {
    if constexpr (std::is_floating_point_v<T>) {
      constexpr double kWhole = 9007199254740992.0;  // 2^53
      if (!(std::abs(elements[i]) <= kWhole) || std::floor(elements[i]) != elements[i]) {
        return absl::InvalidArgumentError(
            absl::StrCat("element ", i, " is ", elements[i], ", not a whole number"));
      }
    }
    values.push_back(static_cast<int64_t>(elements[i]));
  }
  return absl::OkStatus();
}

absl::Status Append(const matvar_t& variable, size_t count, std::vector<int64_t>& values) {
  switch (variable.class_type) {
    case MAT_C_DOUBLE:
      return AppendAs<double>(variable, count, values);
    case MAT_C_SINGLE:
      return AppendAs<float>(variable, count, values);
    case MAT_C_INT8:
      return AppendAs<int8_t>(variable, count, values);
    case MAT_C_UINT8:
      return AppendAs<uint8_t>(variable, count, values);
    case MAT_C_INT16:
      return AppendAs<int16_t>(variable, count, values);
    case MAT_C_UINT16:
      return AppendAs<uint16_t>(variable, count, values);
    case MAT_C_INT32:
      return AppendAs<int32_t>(variable, count, values);
    case MAT_C_UINT32:
      return AppendAs<uint32_t>(variable, count, values);
    case MAT_C_INT64:
      return AppendAs<int64_t>(variable, count, values);
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("it is ", KindOf(variable.class_type), ", not a list of numbers"));
  }
}

std::string NamesIn(mat_t* file) {
  size_t count = 0;
  char* const* const names = Mat_GetDir(file, &count);
  if (names == nullptr || count == 0) return "it holds none";
  return absl::StrCat("it holds ", absl::StrJoin(std::span(names, count), ", "));
}

// An error's text has no file and variable yet.
absl::Status ReadElements(mat_t* file, matvar_t& variable, std::vector<int64_t>& values) {
  size_t count = 1;
  for (const size_t extent : std::span(variable.dims, static_cast<size_t>(variable.rank))) {
    if (extent > kElements || count * extent > kElements) {
      return absl::InvalidArgumentError("it has more than 2^24 elements");
    }
    count *= extent;
  }
  if (variable.isComplex != 0) return absl::InvalidArgumentError("it is complex");
  TOST_RETURN_IF_ERROR(Append(variable, 0, values));  // the type is one that can be read
  if (count == 0) return absl::OkStatus();
  if (Mat_VarReadDataAll(file, &variable) != 0 || variable.data == nullptr) {
    return absl::DataLossError("its data are damaged; download the file again");
  }
  return Append(variable, count, values);
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> ReadMatIntegers(absl::string_view bytes,
                                                     absl::string_view name,
                                                     const std::string& variable) {
  // libmatio would print what it finds wrong.
  static const int silent = Mat_LogInitFunc("tost", [](int, char*) {});
  TOST_CHECK_EQ(silent, 0);
  TOST_RETURN_IF_ERROR(CheckStructure(bytes, name));
  const MemoryFile copy;
  TOST_RETURN_IF_ERROR(copy.Write(bytes));
  const std::unique_ptr<mat_t, int (*)(mat_t*)> file(Mat_Open(copy.path().c_str(), MAT_ACC_RDONLY),
                                                     &Mat_Close);
  if (file == nullptr) {
    return absl::DataLossError(absl::StrCat(name, ": its header is damaged; download it again"));
  }
  const std::unique_ptr<matvar_t, void (*)(matvar_t*)> found(
      Mat_VarReadInfo(file.get(), variable.c_str()), &Mat_VarFree);
  if (found == nullptr) {
    return absl::NotFoundError(
        absl::StrCat(name, ": there is no variable ", variable, " (", NamesIn(file.get()), ")"));
  }
  std::vector<int64_t> values;
  const absl::Status status = ReadElements(file.get(), *found, values);
  if (status.ok()) return values;
  return absl::Status(status.code(),
                      absl::StrCat(name, ": variable ", variable, ": ", status.message()));
}

}  // namespace tost::data
