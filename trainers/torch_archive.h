// The zip archive that a file of PyTorch is, read from front to back through libarchive.
#ifndef TOST_TRAINERS_TORCH_ARCHIVE_H_
#define TOST_TRAINERS_TORCH_ARCHIVE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct archive;
struct archive_entry;

namespace tost::train {

// One pass through the records of an archive. Records lie below one folder, whose name is taken
// off: "checkpoint/data.pkl" is "data.pkl".
//
//   while (true) {
//     TOST_ASSIGN_OR_RETURN(const bool more, pass.Next());
//     if (!more) break;
//     if (pass.record() == "data.pkl") …
//   }
class TorchArchive {
 public:
  static absl::StatusOr<TorchArchive> Open(const std::string& path);
  TorchArchive(TorchArchive&&) noexcept;
  ~TorchArchive();

  // Moves to the next record; false after the last.
  absl::StatusOr<bool> Next();
  const std::string& record() const { return record_; }
  int64_t bytes() const { return bytes_; }  // of the record; never more than the file has

  // The whole record, checked against its checksum. At most once per record.
  absl::StatusOr<std::vector<std::byte>> Read();

 private:
  struct Close {
    void operator()(archive* archive) const;
  };
  TorchArchive(std::string path, int64_t file_bytes, std::unique_ptr<archive, Close> archive);
  absl::Status Damaged(const std::string& what) const;

  std::string path_;
  int64_t file_bytes_;
  std::unique_ptr<archive, Close> archive_;
  std::string record_;
  int64_t bytes_ = 0;
};

}  // namespace tost::train

#endif  // TOST_TRAINERS_TORCH_ARCHIVE_H_
