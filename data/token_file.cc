#include "data/token_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "autograd/base/errors.h"

namespace tost::data {
namespace {

constexpr int64_t kHeaderBytes = 1024;
constexpr char kMagic[8] = "TOSTTOK";
constexpr uint32_t kVersion = 1;
constexpr int64_t kIdsPerRead = 1 << 18;

static_assert(std::endian::native == std::endian::little, "token files are read as they lie");

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t width;
  uint64_t count;
  uint64_t vocabulary;
  uint64_t largest_id;
  std::array<std::byte, 32> tokenizer_digest;
};
static_assert(sizeof(Header) == 72);

std::string HexDigest(std::span<const std::byte> digest) {
  if (std::all_of(digest.begin(), digest.end(), [](std::byte b) { return b == std::byte{0}; })) {
    return "";
  }
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest.data()), digest.size()));
}

struct LlmCFormat {
  uint32_t magic;
  uint32_t version;
  int width;
};
constexpr LlmCFormat kLlmCFormats[] = {{20240520, 1, 2}, {20240801, 7, 4}};

// Fills `out` from byte `offset` on.
absl::Status ReadBytes(int descriptor, const std::string& path, int64_t offset,
                       std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = pread(descriptor, out.data(), out.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError("cannot read", path, errno);
    if (got == 0) {
      return absl::DataLossError(absl::StrCat(path, " ends at byte ", offset,
                                              ": it has become shorter since it was opened"));
    }
    out = out.subspan(static_cast<size_t>(got));
    offset += got;
  }
  return absl::OkStatus();
}

// A header's promise against the size of the file; the arithmetic cannot overflow.
absl::Status CheckPayload(const std::string& path, uint64_t count, int width, int64_t bytes) {
  const auto payload = static_cast<uint64_t>(bytes - kHeaderBytes);
  const auto bytes_per_id = static_cast<uint64_t>(width);
  if (payload / bytes_per_id == count && payload % bytes_per_id == 0) return absl::OkStatus();
  const bool representable = count < uint64_t{1} << 60;
  return absl::DataLossError(absl::StrCat(
      path, ": its header promises ", count, " tokens of ", width, " bytes",
      representable
          ? absl::StrCat(" (", kHeaderBytes + static_cast<int64_t>(count) * width, " bytes in all)")
          : std::string(),
      ", but the file holds ", payload / bytes_per_id, " tokens (", bytes,
      " bytes); copy or prepare it again"));
}

template <class T>
void Widen(const std::vector<std::byte>& bytes, std::span<int32_t> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    T id;
    std::memcpy(&id, bytes.data() + i * sizeof(T), sizeof(T));
    out[i] = static_cast<int32_t>(id);
  }
}

}  // namespace

const char* Name(TokenLayout layout) {
  switch (layout) {
    case TokenLayout::kTost:
      return "tost header";
    case TokenLayout::kLlmC:
      return "llm.c header";
    case TokenLayout::kRaw:
      return "raw, no header";
  }
  return "?";
}

TokenFile::TokenFile(TokenFile&& other) noexcept { *this = std::move(other); }

TokenFile& TokenFile::operator=(TokenFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  layout_ = other.layout_;
  header_bytes_ = other.header_bytes_;
  size_ = other.size_;
  width_ = other.width_;
  vocabulary_ = other.vocabulary_;
  largest_id_ = other.largest_id_;
  std::swap(tokenizer_digest_, other.tokenizer_digest_);
  return *this;
}

TokenFile::~TokenFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::StatusOr<TokenFile> TokenFile::Open(const std::string& path, int64_t vocabulary) {
  TokenFile file;
  file.path_ = path;
  file.descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file.descriptor_ < 0) return FileError("cannot read token file", path, errno);
  struct stat information {};
  if (fstat(file.descriptor_, &information) != 0) return FileError("cannot read", path, errno);
  if (!S_ISREG(information.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a file of tokens"));
  }
  TOST_RETURN_IF_ERROR(file.ParseHeader(information.st_size, vocabulary));
  return file;
}

absl::Status TokenFile::ParseHeader(int64_t bytes, int64_t vocabulary) {
  if (bytes == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, " is empty (0 bytes); prepare the data again"));
  }
  Header header{};
  const auto begin = std::as_writable_bytes(std::span(&header, 1));
  const auto available = static_cast<size_t>(std::min<int64_t>(bytes, sizeof(Header)));
  TOST_RETURN_IF_ERROR(ReadBytes(descriptor_, path_, 0, begin.first(available)));
  uint32_t words[3] = {};  // as llm.c would read them
  std::memcpy(words, &header, sizeof(words));

  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) == 0) {
    return ParseOurs(header.version, header.width, header.count, header.vocabulary,
                     header.largest_id, header.tokenizer_digest, bytes);
  }
  for (const LlmCFormat& format : kLlmCFormats) {
    if (words[0] == format.magic) {
      layout_ = TokenLayout::kLlmC;
      width_ = format.width;
      return CheckHeader(words[1], format.version, words[2], bytes);
    }
  }
  width_ = TokenWidth(vocabulary);
  size_ = bytes / width_;
  if (bytes % width_ == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path_, ": ", bytes, " bytes are not a whole number of raw tokens of ", width_,
                   " bytes; the file is cut or holds no tokens, copy or prepare it again"));
}

absl::Status TokenFile::ParseOurs(uint32_t version, uint32_t width, uint64_t count,
                                  uint64_t vocabulary, uint64_t largest_id,
                                  std::span<const std::byte> digest, int64_t bytes) {
  layout_ = TokenLayout::kTost;
  if (bytes >= kHeaderBytes && width != 2 && width != 4) {
    return absl::DataLossError(
        absl::StrCat(path_, ": its header gives ", width,
                     " bytes per token, not 2 or 4; prepare the data again"));
  }
  width_ = width == 4 ? 4 : 2;
  TOST_RETURN_IF_ERROR(CheckHeader(version, kVersion, count, bytes));
  if (vocabulary > uint64_t{1} << 31 || largest_id >= vocabulary) {
    return absl::DataLossError(absl::StrCat(path_, ": its header gives the largest id as ",
                                            largest_id, " and the vocabulary as ", vocabulary,
                                            "; prepare the data again"));
  }
  vocabulary_ = static_cast<int64_t>(vocabulary);
  largest_id_ = static_cast<int64_t>(largest_id);
  tokenizer_digest_ = HexDigest(digest);
  return absl::OkStatus();
}

absl::Status TokenFile::CheckHeader(uint32_t version, uint32_t known_version, uint64_t count,
                                    int64_t bytes) {
  if (bytes < kHeaderBytes) {
    return absl::DataLossError(absl::StrCat(path_, ": ", bytes, " bytes, but its ", Name(layout_),
                                            " alone takes ", kHeaderBytes,
                                            "; copy or prepare it again"));
  }
  if (version != known_version) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": ", Name(layout_), " of version ",
                                                   version, ", but this program reads version ",
                                                   known_version, "; prepare the data again"));
  }
  TOST_RETURN_IF_ERROR(CheckPayload(path_, count, width_, bytes));
  if (count == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, " holds 0 tokens; prepare the data again"));
  }
  header_bytes_ = kHeaderBytes;
  size_ = static_cast<int64_t>(count);
  return absl::OkStatus();
}

std::string TokenFile::Description() const {
  return absl::StrCat(path_, ": ", size_, " tokens of ", 8 * width_, " bits (", Name(layout_), ")");
}

absl::Status TokenFile::Read(int64_t first, std::span<int32_t> out) const {
  TOST_CHECK(first >= 0 && first + static_cast<int64_t>(out.size()) <= size_)
      << path_ << ": tokens from " << first << ", " << out.size() << " of them, of " << size_;
  std::vector<std::byte> bytes(out.size() * static_cast<size_t>(width_));
  TOST_RETURN_IF_ERROR(ReadBytes(descriptor_, path_, header_bytes_ + first * width_, bytes));
  if (width_ == 2) {
    Widen<uint16_t>(bytes, out);
  } else {
    Widen<uint32_t>(bytes, out);
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> TokenFile::LargestId() const {
  if (largest_id_ >= 0) return largest_id_;
  uint32_t largest = 0;
  TOST_RETURN_IF_ERROR(ForEachPiece([&](int64_t, std::span<const int32_t> ids) {
    for (int32_t id : ids) largest = std::max(largest, static_cast<uint32_t>(id));
    return absl::OkStatus();
  }));
  return static_cast<int64_t>(largest);
}

absl::Status TokenFile::CheckIds(int64_t vocabulary) const {
  if (largest_id_ >= 0 && largest_id_ < vocabulary) return absl::OkStatus();
  return ForEachPiece([&](int64_t first, std::span<const int32_t> ids) {
    return CheckIds(first, ids, vocabulary);
  });
}

absl::Status TokenFile::CheckIds(int64_t first, std::span<const int32_t> ids,
                                 int64_t vocabulary) const {
  // 32-bit ids beyond 2^31 - 1 arrive as negative numbers; as unsigned ones they are themselves.
  const auto outside = [&](int32_t id) { return static_cast<uint32_t>(id) >= vocabulary; };
  const auto found = std::find_if(ids.begin(), ids.end(), outside);
  if (found == ids.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      path_, ": position ", first + (found - ids.begin()), " holds id ",
      static_cast<uint32_t>(*found), ", outside the vocabulary of ", vocabulary, " (read as ",
      Name(layout_), "); was the data prepared with another tokenizer?"));
}

absl::Status TokenFile::ForEachPiece(
    absl::FunctionRef<absl::Status(int64_t, std::span<const int32_t>)> visit) const {
  std::vector<int32_t> ids(static_cast<size_t>(std::min(size_, kIdsPerRead)));
  for (int64_t first = 0; first < size_; first += kIdsPerRead) {
    const auto count = static_cast<size_t>(std::min(kIdsPerRead, size_ - first));
    TOST_RETURN_IF_ERROR(Read(first, std::span(ids).first(count)));
    TOST_RETURN_IF_ERROR(visit(first, std::span(ids).first(count)));
  }
  return absl::OkStatus();
}

TokenFileWriter::TokenFileWriter(AtomicFile file, TokenFileOptions options)
    : file_(std::move(file)), options_(std::move(options)) {}

absl::StatusOr<TokenFileWriter> TokenFileWriter::Create(const std::string& path,
                                                        TokenFileOptions options) {
  const int needed = TokenWidth(options.vocabulary);
  const int width = options.width;
  TOST_CHECK(width == 0 || width == 2 || width == 4) << width << " bytes per token";
  TOST_CHECK(options.layout != TokenLayout::kLlmC) << path;
  TOST_CHECK(options.tokenizer_digest.empty() ||
             options.tokenizer_digest.size() == 2 * sizeof(Header::tokenizer_digest))
      << options.tokenizer_digest;
  if (width != 0 && width < needed) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": a vocabulary of ", options.vocabulary,
                                                   " does not fit ids of ", 8 * width,
                                                   " bits; write ", 8 * needed, " bits"));
  }
  if (width == 0) options.width = needed;
  TOST_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  if (options.layout == TokenLayout::kTost) {
    const std::vector<std::byte> header(kHeaderBytes);
    TOST_RETURN_IF_ERROR(file.Append(header));
  }
  return TokenFileWriter(std::move(file), std::move(options));
}

int64_t TokenFileWriter::bytes() const {
  return (options_.layout == TokenLayout::kTost ? kHeaderBytes : 0) + size_ * options_.width;
}

absl::Status TokenFileWriter::Append(std::span<const int32_t> ids) {
  const auto width = static_cast<size_t>(options_.width);
  std::vector<std::byte> bytes(ids.size() * width);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= options_.vocabulary) {
      return absl::InvalidArgumentError(
          absl::StrCat(file_.path(), ": position ", size_ + static_cast<int64_t>(i), " holds id ",
                       ids[i], ", outside the vocabulary of ", options_.vocabulary));
    }
    largest_id_ = std::max<int64_t>(largest_id_, ids[i]);
    std::memcpy(bytes.data() + i * width, &ids[i], width);  // little-endian: the low bytes
  }
  size_ += static_cast<int64_t>(ids.size());
  return file_.Append(bytes);
}

absl::Status TokenFileWriter::Finish() {
  if (options_.layout == TokenLayout::kRaw) return file_.Finish();
  Header header{.version = kVersion,
                .width = static_cast<uint32_t>(options_.width),
                .count = static_cast<uint64_t>(size_),
                .vocabulary = static_cast<uint64_t>(options_.vocabulary),
                .largest_id = static_cast<uint64_t>(largest_id_)};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  const std::string digest = absl::HexStringToBytes(options_.tokenizer_digest);
  std::memcpy(header.tokenizer_digest.data(), digest.data(), digest.size());
  TOST_RETURN_IF_ERROR(file_.WriteAt(0, std::as_bytes(std::span(&header, 1))));
  return file_.Finish();
}

}  // namespace tost::data
