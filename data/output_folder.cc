#include "data/output_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "autograd/base/errors.h"
#include "data/atomic_file.h"

namespace tost::data {
namespace {

namespace fs = std::filesystem;

// The path without a link or a slash at its end, so that a sibling of it can be named.
absl::StatusOr<std::string> Resolved(const std::string& path) {
  std::error_code error;
  fs::path resolved = fs::weakly_canonical(fs::absolute(path, error), error);
  if (error) return FileError("cannot use folder", path, error.value());
  if (!resolved.has_filename()) resolved = resolved.parent_path();
  if (!resolved.has_filename()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " cannot be replaced as a whole; choose a folder below it"));
  }
  return resolved.string();
}

// The names in a folder, sorted; none when it does not exist.
absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  if (!fs::exists(folder, error)) return names;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error) return FileError("cannot use folder", folder, error.value());
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status CheckOurs(const std::string& folder, const std::vector<std::string>& names,
                       OutputFolder::IsOurs is_ours) {
  for (const std::string& name : names) {
    if (is_ours(name)) continue;
    return absl::AlreadyExistsError(
        absl::StrCat(folder, "/", name,
                     " is in the way: the whole folder would be replaced, and this is no file of "
                     "prepared data; move it away or choose another folder"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<OutputFolder>> OutputFolder::Create(const std::string& path,
                                                                   bool overwrite, IsOurs is_ours) {
  TOST_ASSIGN_OR_RETURN(std::string resolved, Resolved(path));
  std::unique_ptr<OutputFolder> output(new OutputFolder(std::move(resolved)));
  TOST_ASSIGN_OR_RETURN(const std::vector<std::string> old, NamesIn(output->path_));
  if (!old.empty() && !overwrite) {
    return absl::AlreadyExistsError(
        absl::StrCat(path, "/", old[0], " exists; choose another folder or ask for --overwrite"));
  }
  TOST_RETURN_IF_ERROR(CheckOurs(output->path_, old, is_ours));

  std::error_code error;
  fs::create_directories(output->partial_, error);
  if (error) return FileError("cannot make folder", path, error.value());
  TOST_RETURN_IF_ERROR(output->Lock());
  TOST_ASSIGN_OR_RETURN(const std::vector<std::string> left, NamesIn(output->partial_));
  TOST_RETURN_IF_ERROR(CheckOurs(output->partial_, left, is_ours));
  for (const std::string& name : left) fs::remove(absl::StrCat(output->partial_, "/", name), error);
  if (error) return FileError("cannot empty folder", output->partial_, error.value());
  output->present_ = true;
  return output;
}

OutputFolder::~OutputFolder() {
  std::error_code ignored;
  if (present_) fs::remove_all(partial_, ignored);
  if (lock_ >= 0) close(lock_);
}

absl::Status OutputFolder::Lock() {
  lock_ = open(partial_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ < 0) return FileError("cannot open folder", partial_, errno);
  if (flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return absl::AlreadyExistsError(
        absl::StrCat("another process is writing to ", partial_, "; wait for its end"));
  }
  return absl::OkStatus();  // some network file systems have no locks
}

absl::Status OutputFolder::Publish() {
  TOST_RETURN_IF_ERROR(Replace());
  present_ = false;
  const std::string parent = fs::path(path_).parent_path().string();
  const int folder = open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return FileError("cannot open folder", parent, errno);
  const int result = fsync(folder);
  const int error = errno;
  close(folder);
  // Some network file systems have no fsync for folders.
  if (result != 0 && error != EINVAL) return FileError("cannot flush folder", parent, error);
  return absl::OkStatus();
}

absl::Status OutputFolder::Replace() {
  // A rename replaces nothing or an empty folder.
  if (std::rename(partial_.c_str(), path_.c_str()) == 0) return absl::OkStatus();
  if (errno != ENOTEMPTY && errno != EEXIST) return FileError("cannot rename to", path_, errno);
  std::error_code error;
  if (renameat2(AT_FDCWD, partial_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) == 0) {
    fs::remove_all(partial_, error);  // the old folder
    return absl::OkStatus();
  }
  // A file system that cannot exchange: for a moment there is no folder at `path`.
  const std::string old = path_ + ".old";
  fs::remove_all(old, error);
  fs::rename(path_, old, error);
  if (!error) fs::rename(partial_, path_, error);
  if (error) return FileError("cannot rename to", path_, error.value());
  fs::remove_all(old, error);
  return absl::OkStatus();
}

}  // namespace tost::data
