// What `tost evaluate --task` can be asked for: which text by which protocol.
#ifndef TOST_TRAINERS_EVALUATION_TASK_H_
#define TOST_TRAINERS_EVALUATION_TASK_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "data/zero_shot_sets.h"
#include "trainers/evaluate_language.h"

namespace tost::train {

// One of the sets, or a text file.
struct EvaluationTask {
  std::optional<data::ZeroShotSet> set;
  std::string text;  // path of the file, where there is no set

  bool cloze() const {
    return set == data::ZeroShotSet::kClozeCommonNouns || set == data::ZeroShotSet::kClozeEntities;
  }
  bool running_text() const { return !cloze() && set != data::ZeroShotSet::kLambada; }
};

// The name of a set or "text:FILE"; an error that lists them for any other.
absl::StatusOr<EvaluationTask> EvaluationTaskNamed(absl::string_view name);

// Options that do not go together, as one line naming the option.
absl::Status ValidateTask(const LanguageEvaluationOptions& options, const EvaluationTask& task);

// The protocol in a sentence, for those who find the figures years later.
std::string ProtocolOf(const LanguageEvaluationOptions& options, const EvaluationTask& task);

// The file to read. The split is --split, or else the test split, or for the official cloze
// protocol the validation split, as its script has it.
absl::StatusOr<data::SetFile> FindTaskData(const LanguageEvaluationOptions& options,
                                           const EvaluationTask& task);

}  // namespace tost::train

#endif  // TOST_TRAINERS_EVALUATION_TASK_H_
