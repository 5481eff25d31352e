// The folder of one training run: config.toml, metrics.jsonl and checkpoints/; for classifiers also
// best.safetensors and result.json.
#ifndef TOST_TRAINERS_RUN_FOLDER_H_
#define TOST_TRAINERS_RUN_FOLDER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tost::train {

enum class RunMode {
  kNew,        // the folder must be absent or empty
  kResume,     // it must hold a checkpoint
  kOverwrite,  // what an earlier run left is removed; files that no run writes stay
};

class RunFolder {
 public:
  // Makes the folder and its checkpoints folder as the mode asks, and checks that it can be
  // written.
  static absl::StatusOr<RunFolder> Open(const std::string& path, RunMode mode);

  const std::string& path() const { return path_; }
  std::string checkpoints() const { return CheckpointsIn(path_); }
  // Where the run at `path` keeps its checkpoints; touches no file.
  static std::string CheckpointsIn(const std::string& path) { return path + "/checkpoints"; }
  std::string metrics() const { return path_ + "/metrics.jsonl"; }
  std::string config() const { return path_ + "/config.toml"; }
  // The best weights that a split has selected, and what a vision run came to.
  std::string best() const { return BestIn(path_); }
  static std::string BestIn(const std::string& path) { return path + "/best.safetensors"; }
  std::string result() const { return path_ + "/result.json"; }

  absl::Status WriteConfig(const std::string& settings) const;

 private:
  explicit RunFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// The checkpoint that `path` means: the newest of a run folder, or the file itself. NotFound when
// there is none.
absl::StatusOr<std::string> CheckpointAt(const std::string& path);

}  // namespace tost::train

#endif  // TOST_TRAINERS_RUN_FOLDER_H_
