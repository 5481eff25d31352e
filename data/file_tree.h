// The files of a data set, wherever they lie: in folders, in archives as they were downloaded, or
// named one by one.
#ifndef TOST_DATA_FILE_TREE_H_
#define TOST_DATA_FILE_TREE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/tar_index.h"
#include "data/text_files.h"

namespace tost::data {

// An uncompressed tar is read in place, and so is a tar inside it, whose files lie in a folder
// called as it is ("n01440764.tar" as "n01440764/…"). A zip, and what is compressed, is held in
// memory decompressed. A folder that has no folders in it stands for the archives in it as well.
//
// Hidden files, names with "..", and names with control characters are passed over and counted.
// Any number of threads may read.
class FileTree {
 public:
  static constexpr int64_t kHeldLimit = int64_t{4} << 30;  // bytes held in memory, all archives

  // Errors name the path that is not there, cannot be read, is damaged, or would take more than
  // `held_limit` bytes of memory.
  static absl::StatusOr<std::shared_ptr<const FileTree>> Open(const std::vector<std::string>& paths,
                                                              int64_t held_limit = kHeldLimit);

  // Paths of the files in their folder or archive, sorted bytewise.
  const std::vector<std::string>& names() const { return names_; }
  int64_t size() const { return static_cast<int64_t>(names_.size()); }
  const std::string& name(int64_t i) const { return names_[static_cast<size_t>(i)]; }
  // The part of a path behind its last slash.
  static absl::string_view LastPart(absl::string_view name);
  // Which folder or archive file i lies in: its number, and the path of that.
  int source(int64_t i) const { return places_[static_cast<size_t>(i)].source; }
  const std::string& source_path(int64_t i) const;
  bool in_archive(int64_t i) const { return !sources_[static_cast<size_t>(source(i))].folder; }
  // Folders without a file in them.
  const std::vector<std::string>& empty_folders() const { return empty_folders_; }
  const SkippedFiles& skipped() const { return skipped_; }
  // Lines for the log: what is held in memory.
  const std::vector<std::string>& notes() const { return notes_; }

  // All files whose last part is `name`.
  std::vector<int64_t> Called(absl::string_view name) const;
  // The one file whose last part is `name`; none and several are errors that say so.
  absl::StatusOr<int64_t> Find(absl::string_view name) const;
  // What errors call file i: the path of its folder or archive, and its name in that.
  std::string Where(int64_t i) const;
  // What errors call the whole.
  const std::string& description() const { return description_; }

  absl::StatusOr<std::string> Read(int64_t i) const;
  absl::StatusOr<std::string> Read(int64_t i, int64_t offset, int64_t bytes) const;
  absl::StatusOr<int64_t> Bytes(int64_t i) const;

 private:
  struct Source {
    std::string path;
    bool folder = false;
    ReadAt read;  // of an archive
  };
  struct Place {
    int source = 0;
    int64_t offset = 0;  // in an archive
    int64_t bytes = 0;
  };
  class Builder;

  std::vector<std::string> names_;
  std::vector<Place> places_;
  std::vector<Source> sources_;
  std::vector<std::string> empty_folders_;
  SkippedFiles skipped_;
  std::vector<std::string> notes_;
  std::string description_;
};

}  // namespace tost::data

#endif  // TOST_DATA_FILE_TREE_H_
