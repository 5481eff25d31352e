// Which files hold text, told by their names, and the walk through the given paths that finds them.
#ifndef TOST_DATA_TEXT_FILES_H_
#define TOST_DATA_TEXT_FILES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tost::data {

enum class TextKind {
  kPlain,   // .txt: one document
  kLines,   // .jsonl, .ndjson: one document a line
  kPacked,  // .gz, .xz, .zst, .bz2, .tar, .zip and short forms as .tgz: something that holds others
};

// By the suffix of a file name or path, in any case; nothing when it is none of these.
std::optional<TextKind> TextKindOf(absl::string_view name);
// "a.jsonl.gz" as "a.jsonl", "a.tgz" as "a.tar"; other names unchanged.
std::string WithoutCompressionSuffix(absl::string_view name);
// Whether a part of the path begins with a dot and is not "." or "..".
bool IsHidden(absl::string_view path);

// What was passed over because its name does not say that it holds text, or is hidden.
struct SkippedFiles {
  int64_t count = 0;
  std::string first;  // the name of one of them

  void Add(absl::string_view name);
};

struct InputFile {
  std::string path;
  bool named = false;  // by the user, and not found in a folder
  int64_t bytes = 0;
};

// The files that paths stand for, in the order of the paths. A folder stands for the files below
// it that TextKindOf knows and that are not hidden, sorted by path, bytewise; links to folders are
// not followed. Memory is that of the names in one folder at a time (and in those above it).
class FileWalk {
 public:
  explicit FileWalk(std::vector<std::string> paths) : paths_(std::move(paths)) {}

  // The next file, or nothing.
  absl::StatusOr<std::optional<InputFile>> Next();
  const SkippedFiles& skipped() const { return skipped_; }

 private:
  struct Folder {
    std::string path;
    std::vector<std::string> names;  // sorted; those of folders end in "/"
    size_t next = 0;
  };
  absl::Status Enter(const std::string& path);
  absl::StatusOr<std::optional<InputFile>> NextNamed();

  std::vector<std::string> paths_;
  size_t next_path_ = 0;
  std::vector<Folder> folders_;  // the outermost first
  SkippedFiles skipped_;
};

}  // namespace tost::data

#endif  // TOST_DATA_TEXT_FILES_H_
