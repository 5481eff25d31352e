#include "data/tar_index.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "autograd/base/errors.h"
#include "data/archive_reader.h"

namespace tost::data {
namespace {

constexpr int64_t kBlock = 512;
// Of a long name or a pax header; longer ones are no names.
constexpr int64_t kLongestExtension = 1 << 20;

using Header = std::array<char, kBlock>;

// A field of the header without its NUL and what follows.
absl::string_view Field(const Header& header, size_t begin, size_t bytes) {
  const absl::string_view field(header.data() + begin, bytes);
  return field.substr(0, field.find('\0'));
}

// The size field: octal digits, or, with the highest bit set, a big-endian number.
std::optional<int64_t> SizeOf(const Header& header) {
  constexpr size_t kBegin = 124, kBytes = 12;
  const absl::string_view field(header.data() + kBegin, kBytes);
  uint64_t size = 0;
  if ((static_cast<unsigned char>(field[0]) & 0x80) != 0) {
    if (static_cast<unsigned char>(field[0]) != 0x80) return std::nullopt;
    for (const char byte : field.substr(1)) {
      if (size >> 54 != 0) return std::nullopt;
      size = size << 8 | static_cast<unsigned char>(byte);
    }
    return static_cast<int64_t>(size);
  }
  for (const char c : field) {
    if (c == ' ' || c == '\0') continue;
    if (c < '0' || c > '7') return std::nullopt;
    size = size * 8 + static_cast<uint64_t>(c - '0');
  }
  return static_cast<int64_t>(size);
}

std::string NameOf(const Header& header) {
  const absl::string_view name = Field(header, 0, 100);
  // GNU's magic number is "ustar  "; it uses the place of the prefix for other things.
  const bool posix = absl::string_view(header.data() + 257, 6) == absl::string_view("ustar\0", 6);
  const absl::string_view prefix = posix ? Field(header, 345, 155) : absl::string_view();
  return prefix.empty() ? std::string(name) : absl::StrCat(prefix, "/", name);
}

// What the headers before a member say of it.
struct Extension {
  std::optional<std::string> name;
  std::optional<int64_t> bytes;
  bool sparse = false;
};

// Records "length key=value\n"; false when they are none.
bool ReadPax(absl::string_view records, Extension& extension) {
  while (!records.empty() && records[0] != '\0') {
    const size_t space = records.find(' ');
    uint64_t length = 0;
    if (space == records.npos || !absl::SimpleAtoi(records.substr(0, space), &length)) return false;
    if (length < space + 2 || length > records.size()) return false;
    const absl::string_view record = records.substr(space + 1, length - space - 2);
    const size_t equals = record.find('=');
    if (equals == record.npos) return false;
    const absl::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
    if (key == "path") extension.name = std::string(value);
    if (key == "size") {
      int64_t bytes = 0;
      if (!absl::SimpleAtoi(value, &bytes) || bytes < 0) return false;
      extension.bytes = bytes;
    }
    if (absl::StartsWith(key, "GNU.sparse")) extension.sparse = true;
    records.remove_prefix(length);
  }
  return true;
}

class Index {
 public:
  Index(const ReadAt& read, int64_t begin, int64_t end, absl::string_view archive)
      : read_(read), begin_(begin), at_(begin), end_(end), archive_(archive) {}

  absl::StatusOr<std::vector<TarMember>> Members() {
    while (end_ - at_ >= kBlock) {
      TOST_RETURN_IF_ERROR(read_(at_, header_));
      if (header_[0] == '\0') break;  // a block of zeros ends the archive
      TOST_RETURN_IF_ERROR(Next());
    }
    return std::move(members_);
  }

 private:
  absl::Status Damaged(absl::string_view what) const {
    return absl::DataLossError(absl::StrCat(archive_, ": ", what, " at byte ", at_ - begin_,
                                            "; copy or download it again"));
  }

  absl::Status Next() {
    const absl::string_view head(header_.data(), header_.size());
    const std::optional<int64_t> size = SizeOf(header_);
    if (ContainerOf(head) != Container::kTar || !size) return Damaged("no tar header");
    const char type = header_[156];
    const bool file = type == '0' || type == '\0' || type == '7';
    int64_t bytes = *size;
    if (file && extension_.bytes) bytes = *extension_.bytes;
    if (type >= '1' && type <= '6') bytes = 0;  // links, devices and folders have no content
    if (bytes < 0 || bytes > end_ - at_ - kBlock) {
      return Damaged(
          absl::StrCat("the archive is cut: it has no ", bytes, " bytes for the member"));
    }
    if (type == 'L' || type == 'x') {
      TOST_RETURN_IF_ERROR(Extend(type, bytes));
    } else if (type == 'S' || extension_.sparse) {
      return absl::UnimplementedError(
          absl::StrCat(archive_, ": the file at byte ", at_ - begin_,
                       " is stored sparsely, which is not supported; unpack the archive"));
    } else if (type != 'g' && type != 'K') {  // defaults for all members; a long link
      if (file) {
        const std::string name = extension_.name.value_or(NameOf(header_));
        // In the oldest archives a folder is a file whose name ends in a slash.
        if (!absl::EndsWith(name, "/")) members_.push_back({name, at_ + kBlock, bytes});
      }
      extension_ = {};
    }
    at_ += kBlock + (bytes + kBlock - 1) / kBlock * kBlock;
    return absl::OkStatus();
  }

  absl::Status Extend(char type, int64_t bytes) {
    if (bytes > kLongestExtension) return Damaged("a damaged header");
    std::string content(static_cast<size_t>(bytes), '\0');
    TOST_RETURN_IF_ERROR(read_(at_ + kBlock, content));
    if (type == 'L') {
      extension_.name = content.substr(0, content.find('\0'));
    } else if (!ReadPax(content, extension_)) {
      return Damaged("a damaged header");
    }
    return absl::OkStatus();
  }

  const ReadAt& read_;
  int64_t begin_, at_, end_;
  absl::string_view archive_;
  Header header_{};
  Extension extension_;
  std::vector<TarMember> members_;
};

}  // namespace

absl::StatusOr<std::vector<TarMember>> TarMembers(const ReadAt& read, int64_t begin, int64_t end,
                                                  absl::string_view archive) {
  return Index(read, begin, end, archive).Members();
}

}  // namespace tost::data
