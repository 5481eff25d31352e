#include "trainers/run_kind.h"

#include "absl/strings/str_cat.h"
#include "trainers/checkpoint.h"
#include "trainers/run_folder.h"
#include "trainers/vision_run.h"

namespace tost::train {

absl::StatusOr<RunKind> KindOfRun(const std::string& path) {
  TOST_ASSIGN_OR_RETURN(const std::string newest, CheckpointAt(path));
  TOST_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(newest));
  TOST_ASSIGN_OR_RETURN(const CheckpointState state, checkpoint.State());
  const auto model = state.extra.find(kModelKey);
  if (model == state.extra.end()) {
    return absl::DataLossError(absl::StrCat(newest, ": holds no description of a model"));
  }
  return DescribesImageClassifier(model->second) ? RunKind::kVision : RunKind::kLanguage;
}

}  // namespace tost::train
