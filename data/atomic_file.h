// Files that are either the old one or the new one, whenever the process or the machine stops.
#ifndef TOST_DATA_ATOMIC_FILE_H_
#define TOST_DATA_ATOMIC_FILE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tost::data {

// What a temporary file's name ends in.
inline constexpr char kTemporarySuffix[] = ".tmp";

// "cannot write /runs/a/x.bin: No space left on device", with the status code that fits errno.
absl::Status FileError(absl::string_view doing, absl::string_view path, int error);

// Writes `<path>.tmp` in the same folder, then fsync, rename to `path`, fsync of the folder.
// Destroyed without Publish it removes the temporary file and leaves `path` as it was.
class AtomicFile {
 public:
  // `expected_bytes`, when known, is compared with the free space of the file system first.
  static absl::StatusOr<AtomicFile> Create(const std::string& path, int64_t expected_bytes = 0);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) = delete;
  ~AtomicFile();

  const std::string& path() const { return path_; }
  absl::Status Append(std::span<const std::byte> bytes);
  // Overwrites bytes already appended (a header whose numbers are known at the end).
  absl::Status WriteAt(int64_t offset, std::span<const std::byte> bytes);
  absl::Status Finish();   // everything is on the disk, under the temporary name
  absl::Status Publish();  // Finish if that has not happened, then the rename

 private:
  AtomicFile(std::string path, int descriptor);
  absl::Status Flush();
  absl::Status WriteNow(std::span<const std::byte> bytes);
  std::string temporary() const { return path_ + kTemporarySuffix; }

  std::string path_;
  int descriptor_ = -1;
  bool present_ = true;  // the temporary file exists
  std::vector<std::byte> pending_;
};

// A whole small file at once.
absl::Status WriteFileAtomically(const std::string& path, absl::string_view content);

// The content of a file; an error naming it when it cannot be read or is a folder.
absl::StatusOr<std::string> ReadFile(const std::string& path);

}  // namespace tost::data

#endif  // TOST_DATA_ATOMIC_FILE_H_
