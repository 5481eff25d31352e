// What a run folder or checkpoint holds.
#ifndef TOST_TRAINERS_RUN_KIND_H_
#define TOST_TRAINERS_RUN_KIND_H_

#include <string>

#include "absl/status/statusor.h"

namespace tost::train {

enum class RunKind { kLanguage, kVision };

// Told by the model's description in the checkpoint. Errors: no such run; a file that is no
// checkpoint of ours.
absl::StatusOr<RunKind> KindOfRun(const std::string& path);

}  // namespace tost::train

#endif  // TOST_TRAINERS_RUN_KIND_H_
