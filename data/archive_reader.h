// Compressed files, tar and zip archives as streams of bytes (libarchive); nothing is ever held
// whole, so an archive may lie inside another one.
#ifndef TOST_DATA_ARCHIVE_READER_H_
#define TOST_DATA_ARCHIVE_READER_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/byte_stream.h"

struct archive;  // libarchive's

namespace tost::data {

enum class Container { kGzip, kBzip2, kXz, kZstd, kTar, kZip };

const char* Name(Container container);  // "gzip", "tar", …
inline bool IsCompression(Container container) { return container < Container::kTar; }

// How many first bytes of a file tell its container.
inline constexpr size_t kContainerHead = 512;
// The container that begins with these bytes: a magic number, or the check sum of a tar header.
std::optional<Container> ContainerOf(absl::string_view head);

class ArchiveReader {
 public:
  // Reads one container out of a stream that begins with it. `name` is its name in errors.
  static absl::StatusOr<std::unique_ptr<ArchiveReader>> Open(ByteStream stream, Container container,
                                                             std::string name);
  ArchiveReader(const ArchiveReader&) = delete;
  ArchiveReader& operator=(const ArchiveReader&) = delete;
  ~ArchiveReader();

  const std::string& name() const { return name_; }
  Container container() const { return container_; }

  // Goes on to the next regular file, in stored order, and returns its name; nothing at the end.
  // Compressed data have one member, whose name means nothing.
  absl::StatusOr<std::optional<std::string>> NextMember();
  // The next bytes of the member: valid until the next call, empty at its end.
  absl::StatusOr<absl::string_view> Read();

 private:
  ArchiveReader(ByteStream stream, Container container, std::string name);
  static long Pull(archive* archive, void* self, const void** bytes);
  absl::Status Failure() const;

  ByteStream stream_;
  Container container_;
  std::string name_;
  archive* archive_;
  bool begun_ = false;          // a member was given
  bool empty_ = false;          // the member has no bytes at all
  absl::Status stream_status_;  // why the stream failed, when it did
  std::vector<char> buffer_;
};

}  // namespace tost::data

#endif  // TOST_DATA_ARCHIVE_READER_H_
