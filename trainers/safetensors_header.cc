#include "trainers/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "autograd/base/errors.h"
#include "nlohmann/json.hpp"

namespace tost::train {
namespace {

constexpr char kMetadata[] = "__metadata__";
constexpr size_t kLengthBytes = 8;

// Takes the header apart while it is being parsed: no tree is built, so a hostile header costs no
// more memory than its own tensors, and nesting deeper than a header's ends the parse at once.
//
//   {"__metadata__": {"k": "text"}, "name": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
//   depth 1          depth 2                                       depth 3
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(SafetensorsHeader& header) : header_(header) {}

  std::string& error() { return error_; }

  bool start_object(size_t) override {
    if (depth_ > 1 || in_list_) return Unexpected("an object");
    if (++depth_ == 1) return true;
    if (name_ == kMetadata) return true;
    entry_ = {.name = name_};
    has_dtype_ = has_shape_ = false;
    offsets_.clear();
    return true;
  }

  bool key(std::string& key) override {
    if (depth_ == 2) {
      field_ = key;
      return true;
    }
    if (!names_.insert(key).second) return Fail(absl::StrCat("\"", key, "\" occurs twice"));
    name_ = key;
    return true;
  }

  bool end_object() override {
    if (--depth_ == 0 || name_ == kMetadata) return true;
    if (!has_dtype_ || !has_shape_ || offsets_.size() != 2) {
      return Fail(
          absl::StrCat("tensor ", name_, " lacks one of dtype, shape and two data_offsets"));
    }
    entry_.begin = offsets_[0];
    entry_.end = offsets_[1];
    header_.tensors.push_back(std::move(entry_));
    return true;
  }

  bool start_array(size_t) override {
    if (depth_ != 2 || in_list_ || name_ == kMetadata) return Unexpected("a list");
    if (field_ != "shape" && field_ != "data_offsets") return Unexpected("a list");
    has_shape_ = has_shape_ || field_ == "shape";
    in_list_ = true;
    return true;
  }
  bool end_array() override {
    in_list_ = false;
    return true;
  }

  bool string(std::string& value) override {
    if (depth_ != 2 || in_list_) return Unexpected("a text");
    if (name_ == kMetadata) {
      header_.metadata[field_] = value;
      return true;
    }
    if (field_ != "dtype") return Unexpected("a text");
    has_dtype_ = true;
    entry_.dtype = value;
    return true;
  }

  bool number_unsigned(uint64_t value) override {
    if (!in_list_) return Unexpected("a number");
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return Unexpected(absl::StrCat("the number ", value));
    }
    std::vector<int64_t>& list = field_ == "shape" ? entry_.shape : offsets_;
    list.push_back(static_cast<int64_t>(value));
    return true;
  }
  bool number_integer(int64_t value) override {
    return Unexpected(absl::StrCat("the number ", value));
  }
  bool number_float(double, const std::string& text) override {
    return Unexpected(absl::StrCat("the number ", text));
  }
  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("a truth value"); }
  bool binary(nlohmann::json::binary_t&) override { return Unexpected("binary data"); }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return Fail(absl::StrCat("it stops being JSON at byte ", position));
  }

 private:
  bool Fail(std::string error) {
    if (error_.empty()) error_ = std::move(error);
    return false;
  }
  bool Unexpected(const std::string& what) {
    if (depth_ == 0) return Fail(absl::StrCat(what, " in place of the object of tensors"));
    return Fail(absl::StrCat("\"", name_, "\"", depth_ > 1 ? absl::StrCat(", ", field_) : "", ": ",
                             what, " where none belongs"));
  }

  SafetensorsHeader& header_;
  std::string error_;
  int depth_ = 0;
  bool in_list_ = false;
  std::string name_;
  std::string field_;
  TensorEntry entry_;
  bool has_dtype_ = false;
  bool has_shape_ = false;
  std::vector<int64_t> offsets_;
  absl::flat_hash_set<std::string> names_;
};

// Bytes that a shape of a type takes; -1 when they do not fit 63 bits.
int64_t BytesOf(const TensorEntry& entry) {
  const int64_t element = ElementBytes(entry.dtype);
  int64_t bytes = element;
  for (int64_t extent : entry.shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return -1;
  }
  return bytes;
}

absl::Status CheckEntry(const TensorEntry& entry, absl::string_view source) {
  if (ElementBytes(entry.dtype) == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        source, ": tensor ", entry.name, " is of the unknown type \"", entry.dtype, "\""));
  }
  const int64_t bytes = BytesOf(entry);
  if (entry.end >= entry.begin && entry.end - entry.begin == bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      source, ": tensor ", entry.name, " of ", entry.dtype, " ", entry.ShapeString(), " takes ",
      bytes < 0 ? "more than 2^63" : absl::StrCat(bytes), " bytes, but its range [", entry.begin,
      ", ", entry.end, ") does not hold that many"));
}

// The ranges, in order, must cover the data exactly once.
absl::Status CheckCover(const std::vector<TensorEntry>& tensors, int64_t data_bytes,
                        absl::string_view source) {
  int64_t covered = 0;
  const std::string* previous = nullptr;
  for (const TensorEntry& entry : tensors) {
    if (entry.begin < covered) {
      return absl::InvalidArgumentError(absl::StrCat(source, ": tensors ", *previous, " and ",
                                                     entry.name, " overlap at byte ", entry.begin,
                                                     " of the data"));
    }
    if (entry.begin > covered) {
      return absl::InvalidArgumentError(absl::StrCat(source, ": bytes [", covered, ", ",
                                                     entry.begin, ") of the data, before tensor ",
                                                     entry.name, ", belong to no tensor"));
    }
    covered = entry.end;
    previous = &entry.name;
  }
  if (covered == data_bytes) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(source, ": its tensors take ", covered, " bytes, but ", data_bytes,
                   " bytes follow the header: the file is ",
                   covered > data_bytes ? absl::StrCat(covered - data_bytes, " bytes too short")
                                        : absl::StrCat(data_bytes - covered, " bytes too long"),
                   "; copy or save it again"));
}

}  // namespace

int64_t TensorEntry::element_count() const {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return count;
}

std::string TensorEntry::ShapeString() const {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

int64_t ElementBytes(absl::string_view dtype) {
  constexpr std::pair<const char*, int64_t> kTypes[] = {
      {"F32", 4}, {"BF16", 2}, {"F16", 2},  {"F64", 8},     {"I64", 8},
      {"I32", 4}, {"I16", 2},  {"I8", 1},   {"U64", 8},     {"U32", 4},
      {"U16", 2}, {"U8", 1},   {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};
  for (const auto& [name, bytes] : kTypes) {
    if (dtype == name) return bytes;
  }
  return 0;
}

absl::StatusOr<SafetensorsHeader> ParseHeader(absl::string_view json, int64_t data_bytes,
                                              absl::string_view source) {
  SafetensorsHeader header;
  HeaderReader reader(header);
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &reader)) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": not a safetensors header: ", reader.error()));
  }
  for (const TensorEntry& entry : header.tensors) {
    TOST_RETURN_IF_ERROR(CheckEntry(entry, source));
  }
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const TensorEntry& a, const TensorEntry& b) {
              return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
            });
  TOST_RETURN_IF_ERROR(CheckCover(header.tensors, data_bytes, source));
  header.data_offset = static_cast<int64_t>(kLengthBytes + json.size());
  return header;
}

std::string FormatHeader(const std::vector<TensorEntry>& tensors,
                         const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  for (const TensorEntry& entry : tensors) {
    header[entry.name] = {
        {"dtype", entry.dtype}, {"shape", entry.shape}, {"data_offsets", {entry.begin, entry.end}}};
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');
  std::string length(kLengthBytes, '\0');
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length[i] = static_cast<char>(static_cast<uint64_t>(text.size()) >> (8 * i));
  }
  return length + text;
}

}  // namespace tost::train
