// A folder that is either the old one or the complete new one, whenever the process stops.
#ifndef TOST_DATA_OUTPUT_FOLDER_H_
#define TOST_DATA_OUTPUT_FOLDER_H_

#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tost::data {

class OutputFolder {
 public:
  // Whether a file of this name may be deleted.
  using IsOurs = absl::FunctionRef<bool(absl::string_view)>;

  // Makes the folder `<path>.partial`, to be filled, and removes what an earlier process left in
  // it. A `path` that is there and not empty is an error unless `overwrite`; a folder that would be
  // deleted and holds a file that is not ours is an error. So is another process that is filling
  // the folder.
  static absl::StatusOr<std::unique_ptr<OutputFolder>> Create(const std::string& path,
                                                              bool overwrite, IsOurs is_ours);
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;
  // Without Publish everything is removed and `path` is as it was.
  ~OutputFolder();

  // Where to write.
  const std::string& partial() const { return partial_; }
  // Gives the folder its name, in place of what is there.
  absl::Status Publish();

 private:
  explicit OutputFolder(std::string path) : path_(std::move(path)), partial_(path_ + ".partial") {}
  absl::Status Lock();
  absl::Status Replace();

  std::string path_;
  std::string partial_;
  int lock_ = -1;         // the folder opened
  bool present_ = false;  // partial_ exists and is ours
};

}  // namespace tost::data

#endif  // TOST_DATA_OUTPUT_FOLDER_H_
