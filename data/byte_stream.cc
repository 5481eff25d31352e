#include "data/byte_stream.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "autograd/base/errors.h"
#include "data/atomic_file.h"

namespace tost::data {
namespace {

constexpr size_t kBytesPerRead = 1 << 18;

struct OpenFile {
  OpenFile(std::string name, int file) : path(std::move(name)), descriptor(file) {}
  ~OpenFile() { close(descriptor); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  std::string path;
  int descriptor;
  std::vector<char> buffer = std::vector<char>(kBytesPerRead);
};

}  // namespace

absl::StatusOr<ByteStream> ByteStream::OfFile(const std::string& path, int64_t* consumed) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return FileError("cannot read", path, errno);
  const auto file = std::make_shared<OpenFile>(path, descriptor);
  return ByteStream([file, consumed]() -> absl::StatusOr<absl::string_view> {
    ssize_t got = 0;
    do {
      got = read(file->descriptor, file->buffer.data(), file->buffer.size());
    } while (got < 0 && errno == EINTR);
    if (got < 0) return FileError("cannot read", file->path, errno);
    *consumed += got;
    return absl::string_view(file->buffer.data(), static_cast<size_t>(got));
  });
}

absl::StatusOr<absl::string_view> ByteStream::Peek(size_t count) {
  while (peeked_.size() < count) {
    TOST_ASSIGN_OR_RETURN(const absl::string_view more, source_());
    if (more.empty()) break;
    peeked_.append(more.data(), more.size());
  }
  return absl::string_view(peeked_).substr(0, count);
}

absl::StatusOr<absl::string_view> ByteStream::Read() {
  if (peeked_.empty()) return source_();
  given_ = std::exchange(peeked_, {});
  return absl::string_view(given_);
}

}  // namespace tost::data
