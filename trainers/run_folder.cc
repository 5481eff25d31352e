#include "trainers/run_folder.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "autograd/base/errors.h"
#include "data/atomic_file.h"
#include "trainers/checkpoint_folder.h"

namespace tost::train {
namespace {

namespace fs = std::filesystem;

absl::Status CheckEmpty(const std::string& path) {
  std::error_code error;
  const fs::directory_iterator entries(path, error);
  if (error) return data::FileError("cannot read run folder", path, error.value());
  if (entries == fs::directory_iterator()) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat(
      "run folder ", path, " is not empty (it holds ", entries->path().filename().string(),
      "); resume that run with --resume, replace it with --overwrite, or choose another "
      "folder"));
}

// Removes what a run writes: metrics, settings, and checkpoints by their names.
absl::Status RemoveRun(const RunFolder& run) {
  std::vector<std::string> files = ListCheckpoints(run.checkpoints());
  files.push_back(run.metrics());
  files.push_back(run.config());
  files.push_back(run.best());
  files.push_back(run.result());
  for (const std::string& file : files) {
    std::error_code error;
    fs::remove(file, error);
    if (error) return data::FileError("cannot remove", file, error.value());
  }
  return PruneCheckpoints(run.checkpoints(), /*keep=*/0);
}

}  // namespace

absl::StatusOr<RunFolder> RunFolder::Open(const std::string& path, RunMode mode) {
  const RunFolder run(path);
  std::error_code error;
  const bool exists = fs::exists(path, error);
  if (exists && !fs::is_directory(path, error)) {
    return absl::AlreadyExistsError(
        absl::StrCat("run folder ", path, " is a file; choose another name"));
  }
  if (mode == RunMode::kResume) {
    TOST_RETURN_IF_ERROR(NewestCheckpoint(run.checkpoints()).status());
  } else if (exists) {
    TOST_RETURN_IF_ERROR(mode == RunMode::kNew ? CheckEmpty(path) : RemoveRun(run));
  }
  fs::create_directories(run.checkpoints(), error);
  if (error) return data::FileError("cannot make run folder", path, error.value());
  for (const std::string& folder : {path, run.checkpoints()}) {
    if (access(folder.c_str(), W_OK | X_OK) != 0) {
      return data::FileError("cannot write to run folder", folder, errno);
    }
  }
  return run;
}

absl::Status RunFolder::WriteConfig(const std::string& settings) const {
  std::ofstream file(config(), std::ios::trunc);
  file << settings;
  file.close();
  if (file.good()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(config(), ": cannot be written"));
}

absl::StatusOr<std::string> CheckpointAt(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    return absl::NotFoundError(absl::StrCat(path, ": no such run folder or checkpoint file"));
  }
  if (!fs::is_directory(path, error)) return path;
  return NewestCheckpoint(RunFolder::CheckpointsIn(path));
}

}  // namespace tost::train
