#include "trainers/checkpoint_folder.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "autograd/base/errors.h"
#include "autograd/base/log.h"
#include "data/atomic_file.h"
#include "trainers/checkpoint.h"

namespace tost::train {
namespace {

namespace fs = std::filesystem;

constexpr char kPrefix[] = "checkpoint_";
constexpr char kSuffix[] = ".safetensors";

// The update of a checkpoint's file name, or -1.
int64_t UpdateOf(absl::string_view name) {
  int64_t update = -1;
  const bool parts = absl::ConsumePrefix(&name, kPrefix) && absl::ConsumeSuffix(&name, kSuffix);
  const bool digits = std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
  return parts && digits && absl::SimpleAtoi(name, &update) ? update : -1;
}

absl::Status Remove(const std::string& path) {
  std::error_code error;
  fs::remove(path, error);
  return error ? data::FileError("cannot remove", path, error.value()) : absl::OkStatus();
}

}  // namespace

std::string CheckpointName(int64_t update) {
  return absl::StrFormat("%s%07d%s", kPrefix, update, kSuffix);
}

std::vector<std::string> ListCheckpoints(const std::string& folder) {
  std::vector<std::pair<int64_t, std::string>> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const int64_t update = UpdateOf(entry.path().filename().string());
    if (update >= 0) found.emplace_back(update, entry.path().string());
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> paths;
  for (auto& [update, path] : found) paths.push_back(std::move(path));
  return paths;
}

absl::StatusOr<std::string> NewestCheckpoint(const std::string& folder) {
  const std::vector<std::string> paths = ListCheckpoints(folder);
  for (auto path = paths.rbegin(); path != paths.rend(); ++path) {
    const absl::Status status = Checkpoint::Open(*path).status();
    if (status.ok()) return *path;
    LogWarning(absl::StrCat("passing over a damaged checkpoint: ", status.message()));
  }
  return absl::NotFoundError(
      absl::StrCat(folder, " holds no ", paths.empty() ? "" : "undamaged ",
                   "checkpoint to resume from; name another folder, or start a new run"));
}

absl::Status PruneCheckpoints(const std::string& folder, int keep) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    absl::string_view base = name;
    if (absl::ConsumeSuffix(&base, data::kTemporarySuffix) && UpdateOf(base) >= 0) {
      TOST_RETURN_IF_ERROR(Remove(entry.path().string()));
    }
  }
  if (keep <= 0) return absl::OkStatus();
  const std::vector<std::string> paths = ListCheckpoints(folder);
  for (size_t i = 0; i + static_cast<size_t>(keep) < paths.size(); ++i) {
    TOST_RETURN_IF_ERROR(Remove(paths[i]));
  }
  return absl::OkStatus();
}

}  // namespace tost::train
