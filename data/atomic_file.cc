#include "data/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "autograd/base/errors.h"

namespace tost::data {
namespace {

constexpr size_t kPendingBytes = 1 << 20;  // gathered before each write to the system

std::string FolderOf(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

absl::Status CheckFreeSpace(const std::string& path, int64_t needed) {
  struct statvfs system {};
  if (needed <= 0 || statvfs(FolderOf(path).c_str(), &system) != 0) return absl::OkStatus();
  const auto free = static_cast<unsigned long long>(system.f_bavail) * system.f_frsize;
  if (free >= static_cast<unsigned long long>(needed)) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("cannot write ", path, ": it needs ", needed, " bytes and ", free,
                   " are free on its file system; make room or choose another folder"));
}

// A rename is on the disk only when its folder is.
absl::Status SyncFolder(const std::string& path) {
  const std::string folder = FolderOf(path);
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return FileError("cannot open folder", folder, errno);
  const int result = fsync(descriptor);
  const int error = errno;
  close(descriptor);
  // Some network file systems have no fsync for folders.
  if (result != 0 && error != EINVAL) return FileError("cannot flush folder", folder, error);
  return absl::OkStatus();
}

}  // namespace

absl::Status FileError(absl::string_view doing, absl::string_view path, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat(doing, " ", path));
}

AtomicFile::AtomicFile(std::string path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      present_(std::exchange(other.present_, false)),
      pending_(std::move(other.pending_)) {}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (present_) unlink(temporary().c_str());
}

absl::StatusOr<AtomicFile> AtomicFile::Create(const std::string& path, int64_t expected_bytes) {
  TOST_RETURN_IF_ERROR(CheckFreeSpace(path, expected_bytes));
  const std::string temporary = path + kTemporarySuffix;
  const int descriptor = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
                              S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH);
  if (descriptor < 0) return FileError("cannot create", temporary, errno);
  return AtomicFile(path, descriptor);
}

absl::Status AtomicFile::Append(std::span<const std::byte> bytes) {
  TOST_CHECK(descriptor_ >= 0) << "Append to " << path_ << " after Finish";
  if (pending_.size() + bytes.size() >= kPendingBytes) {
    TOST_RETURN_IF_ERROR(Flush());
    return WriteNow(bytes);
  }
  pending_.insert(pending_.end(), bytes.begin(), bytes.end());
  return absl::OkStatus();
}

absl::Status AtomicFile::Flush() {
  TOST_RETURN_IF_ERROR(WriteNow(pending_));
  pending_.clear();
  return absl::OkStatus();
}

absl::Status AtomicFile::WriteNow(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FileError("cannot write", path_, errno);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status AtomicFile::WriteAt(int64_t offset, std::span<const std::byte> bytes) {
  TOST_RETURN_IF_ERROR(Flush());
  while (!bytes.empty()) {
    const ssize_t written = pwrite(descriptor_, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FileError("cannot write", path_, errno);
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += written;
  }
  return absl::OkStatus();
}

absl::Status AtomicFile::Finish() {
  TOST_RETURN_IF_ERROR(Flush());
  if (fsync(descriptor_) != 0) return FileError("cannot flush", path_, errno);
  if (close(std::exchange(descriptor_, -1)) != 0) return FileError("cannot close", path_, errno);
  return absl::OkStatus();
}

absl::Status AtomicFile::Publish() {
  if (descriptor_ >= 0) TOST_RETURN_IF_ERROR(Finish());
  if (std::rename(temporary().c_str(), path_.c_str()) != 0) {
    return FileError("cannot rename to", path_, errno);
  }
  present_ = false;
  return SyncFolder(path_);
}

absl::Status WriteFileAtomically(const std::string& path, absl::string_view content) {
  TOST_ASSIGN_OR_RETURN(AtomicFile file,
                        AtomicFile::Create(path, static_cast<int64_t>(content.size())));
  TOST_RETURN_IF_ERROR(file.Append(std::as_bytes(std::span(content.data(), content.size()))));
  return file.Publish();
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return FileError("cannot read", path, errno);
  std::string content;
  char chunk[1 << 16];
  ssize_t got = 0;
  while ((got = read(descriptor, chunk, sizeof(chunk))) > 0 || (got < 0 && errno == EINTR)) {
    if (got > 0) content.append(chunk, static_cast<size_t>(got));
  }
  const int error = errno;
  close(descriptor);
  if (got < 0) return FileError("cannot read", path, error);
  return content;
}

}  // namespace tost::data
