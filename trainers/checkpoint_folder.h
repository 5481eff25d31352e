// The checkpoints of a run: their names, the newest, and which of them stay.
#ifndef TOST_TRAINERS_CHECKPOINT_FOLDER_H_
#define TOST_TRAINERS_CHECKPOINT_FOLDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tost::train {

// "checkpoint_0001000.safetensors".
std::string CheckpointName(int64_t update);

// Paths of the checkpoints in a folder, by ascending update. An absent folder has none.
std::vector<std::string> ListCheckpoints(const std::string& folder);

// The newest that opens; damaged ones are warned about and passed over. An error when there is
// none.
absl::StatusOr<std::string> NewestCheckpoint(const std::string& folder);

// Removes all but the newest `keep` (0: all stay) and the temporary files of interrupted saves.
absl::Status PruneCheckpoints(const std::string& folder, int keep);

}  // namespace tost::train

#endif  // TOST_TRAINERS_CHECKPOINT_FOLDER_H_
