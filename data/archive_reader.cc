#include "data/archive_reader.h"

#include <archive.h>
#include <archive_entry.h>

#include <cerrno>
#include <type_traits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "autograd/base/errors.h"

namespace tost::data {
namespace {

constexpr size_t kBytesPerRead = 1 << 18;

// The sum of a tar header's 512 bytes, its own field of eight counted as spaces, stands in that
// field in octal.
bool IsTarHeader(absl::string_view head) {
  constexpr size_t kHeader = 512, kSum = 148, kSumBytes = 8;
  if (head.size() < kHeader || head[0] == '\0') return false;
  int64_t sum = 0, recorded = 0;
  for (size_t i = 0; i < kHeader; ++i) {
    const bool field = i >= kSum && i < kSum + kSumBytes;
    sum += field ? ' ' : static_cast<unsigned char>(head[i]);
    if (field && head[i] >= '0' && head[i] <= '7') recorded = recorded * 8 + (head[i] - '0');
  }
  return sum == recorded;
}

int Support(archive* archive, Container container) {
  switch (container) {
    case Container::kGzip:
      return archive_read_support_filter_gzip(archive);
    case Container::kBzip2:
      return archive_read_support_filter_bzip2(archive);
    case Container::kXz:
      return archive_read_support_filter_xz(archive);
    case Container::kZstd:
      return archive_read_support_filter_zstd(archive);
    case Container::kTar:
      return archive_read_support_format_tar(archive);
    case Container::kZip:
      return archive_read_support_format_zip_streamable(archive);
  }
  return ARCHIVE_FATAL;
}

// Names are shown in messages of one line.
std::string Printable(std::string name) {
  for (char& c : name) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
  }
  return name;
}

}  // namespace

const char* Name(Container container) {
  switch (container) {
    case Container::kGzip:
      return "gzip";
    case Container::kBzip2:
      return "bzip2";
    case Container::kXz:
      return "xz";
    case Container::kZstd:
      return "zstd";
    case Container::kTar:
      return "tar";
    case Container::kZip:
      return "zip";
  }
  return "?";
}

std::optional<Container> ContainerOf(absl::string_view head) {
  struct Magic {
    absl::string_view bytes;
    Container container;
  };
  constexpr Magic kMagics[] = {{"\x1F\x8B\x08", Container::kGzip},
                               {absl::string_view("\xFD\x37zXZ\0", 6), Container::kXz},
                               {"\x28\xB5\x2F\xFD", Container::kZstd},
                               {"\x50\x2A\x4D\x18", Container::kZstd},  // pzstd's first frame
                               {"PK\3\4", Container::kZip},
                               {"PK\5\6", Container::kZip}};
  for (const Magic& magic : kMagics) {
    if (absl::StartsWith(head, magic.bytes)) return magic.container;
  }
  // "BZh", the block size, and the number that begins a block or ends an empty file.
  constexpr size_t kLevel = 3;
  if (absl::StartsWith(head, "BZh") && head.size() > kLevel && head[kLevel] >= '1' &&
      head[kLevel] <= '9' &&
      (absl::StartsWith(head.substr(kLevel + 1), "\x31\x41\x59\x26\x53\x59") ||
       absl::StartsWith(head.substr(kLevel + 1), "\x17\x72\x45\x38\x50\x90"))) {
    return Container::kBzip2;
  }
  if (IsTarHeader(head)) return Container::kTar;
  return std::nullopt;
}

ArchiveReader::ArchiveReader(ByteStream stream, Container container, std::string name)
    : stream_(std::move(stream)),
      container_(container),
      name_(std::move(name)),
      archive_(archive_read_new()),
      buffer_(kBytesPerRead) {}

ArchiveReader::~ArchiveReader() { archive_read_free(archive_); }

long ArchiveReader::Pull(archive* archive, void* self, const void** bytes) {
  auto& reader = *static_cast<ArchiveReader*>(self);
  const absl::StatusOr<absl::string_view> more = reader.stream_.Read();
  if (!more.ok()) {
    reader.stream_status_ = more.status();
    archive_set_error(archive, EIO, "cannot read");
    return -1;
  }
  *bytes = more->data();
  return static_cast<long>(more->size());
}

absl::Status ArchiveReader::Failure() const {
  static_assert(std::is_same_v<la_ssize_t, long>, "Pull is libarchive's read callback");
  if (!stream_status_.ok()) return stream_status_;
  const char* why = archive_error_string(archive_);
  return absl::DataLossError(absl::StrCat(
      name_, ": its ", Name(container_), " data are damaged or cut (",
      Printable(why == nullptr ? "no reason known" : why), "); copy or download it again"));
}

absl::StatusOr<std::unique_ptr<ArchiveReader>> ArchiveReader::Open(ByteStream stream,
                                                                   Container container,
                                                                   std::string name) {
  std::unique_ptr<ArchiveReader> reader(
      new ArchiveReader(std::move(stream), container, std::move(name)));
  TOST_CHECK(Support(reader->archive_, container) == ARCHIVE_OK) << Name(container);
  if (IsCompression(container)) {
    archive_read_support_format_raw(reader->archive_);
    archive_read_support_format_empty(reader->archive_);  // nothing was compressed
  }
  if (archive_read_open(reader->archive_, reader.get(), nullptr, &Pull, nullptr) != ARCHIVE_OK) {
    return reader->Failure();
  }
  return reader;
}

absl::StatusOr<std::optional<std::string>> ArchiveReader::NextMember() {
  for (;;) {
    archive_entry* entry = nullptr;
    const int result = archive_read_next_header(archive_, &entry);
    if (result == ARCHIVE_EOF) {
      // Nothing that was compressed is a member without bytes.
      empty_ = IsCompression(container_) && !std::exchange(begun_, true);
      return empty_ ? std::optional<std::string>("") : std::nullopt;
    }
    if (result == ARCHIVE_RETRY) continue;
    // ARCHIVE_WARN: the member is there, some attribute of it could not be read.
    if (result != ARCHIVE_OK && result != ARCHIVE_WARN) return Failure();
    begun_ = true;
    if (IsCompression(container_)) return "";
    const bool link = archive_entry_hardlink(entry) != nullptr;
    if (archive_entry_filetype(entry) != AE_IFREG || link) continue;
    const char* name = archive_entry_pathname(entry);
    if (name == nullptr) name = archive_entry_pathname_utf8(entry);
    return Printable(name == nullptr ? "a member without a name" : name);
  }
}

absl::StatusOr<absl::string_view> ArchiveReader::Read() {
  if (empty_) return absl::string_view();
  la_ssize_t got = 0;
  do {
    got = archive_read_data(archive_, buffer_.data(), buffer_.size());
  } while (got == ARCHIVE_RETRY);
  if (got < 0) return Failure();
  return absl::string_view(buffer_.data(), static_cast<size_t>(got));
}

}  // namespace tost::data
