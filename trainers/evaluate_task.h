// `tost evaluate --task`: language models on texts they were not trained on.
#ifndef TOST_TRAINERS_EVALUATE_TASK_H_
#define TOST_TRAINERS_EVALUATE_TASK_H_

#include "absl/status/status.h"
#include "trainers/evaluate_language.h"

namespace tost::train {

// Prints the figures to standard output and writes them to options.json. What each protocol
// computes is said in trainers/zero_shot.h and trainers/text_loss.h.
absl::Status EvaluateTask(const LanguageEvaluationOptions& options);

}  // namespace tost::train

#endif  // TOST_TRAINERS_EVALUATE_TASK_H_
