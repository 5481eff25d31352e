// The JSON header of a safetensors file: parsing, checking and writing it, apart from any file.
#ifndef TOST_TRAINERS_SAFETENSORS_HEADER_H_
#define TOST_TRAINERS_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tost::train {

struct TensorEntry {
  std::string name;
  std::string dtype;  // "F32", "BF16", …, as the format spells it
  std::vector<int64_t> shape;
  int64_t begin = 0;  // byte range after the header
  int64_t end = 0;

  int64_t element_count() const;
  std::string ShapeString() const;  // "[2, 3]"
};

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  // by ascending range
  std::map<std::string, std::string> metadata;
  int64_t data_offset = 0;  // of byte 0 of the ranges, in the file
};

// Bytes per element of a type of the format; 0 for a name that it does not know.
int64_t ElementBytes(absl::string_view dtype);

// Headers longer than this are refused, as by the reference implementation.
inline constexpr int64_t kMaxHeaderBytes = 100'000'000;

// Parses the header text of a file that has `data_bytes` bytes after it. One error each, naming the
// tensor and `source`: not the JSON of a header, a name twice, an unknown type, a shape that does
// not make its range, ranges that overlap, leave a gap, or end before or beyond the file. Memory in
// proportion to `json`, at constant stack depth.
absl::StatusOr<SafetensorsHeader> ParseHeader(absl::string_view json, int64_t data_bytes,
                                              absl::string_view source);

// The 8 length bytes and the JSON, padded with spaces to a multiple of 8.
std::string FormatHeader(const std::vector<TensorEntry>& tensors,
                         const std::map<std::string, std::string>& metadata);

}  // namespace tost::train

#endif  // TOST_TRAINERS_SAFETENSORS_HEADER_H_
