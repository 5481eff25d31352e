// The loss of a language model on a split of token data.
#ifndef TOST_TRAINERS_EVALUATE_LANGUAGE_H_
#define TOST_TRAINERS_EVALUATE_LANGUAGE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "data/loader.h"
#include "models/language_model.h"
#include "trainers/trainer.h"

namespace tost::train {

// Mean negative log-likelihood over all targets of the batches: sums are divided by counts once, at
// the end. `update` varies the windows of the official random estimate.
absl::StatusOr<Evaluation> EvaluateLanguage(const models::LanguageModel& model,
                                            const data::Evaluation& batches, DType compute_dtype,
                                            int64_t update = 0);

struct LanguageEvaluationOptions {
  std::string run;                   // run folder or checkpoint
  std::string data;                  // folder or file; "": what the run was trained on
  std::string split = "val";         // or "train"
  std::string evaluation = "whole";  // or "random_windows", the official estimate
  int64_t evaluation_batches = 200;
  int64_t batch = 32;    // sequences at a time
  uint64_t seed = 1337;  // of random_windows
  std::string compute_dtype = "float32";
};

// `tost evaluate`: prints loss, perplexity and bits per token to standard output.
absl::Status EvaluateLanguageRun(const LanguageEvaluationOptions& options);

// "float32" or "bfloat16".
absl::StatusOr<DType> ComputeDTypeNamed(absl::string_view name);

// "whole" gives 0, "random_windows" gives `batches`: what data::EvaluationOptions wants.
absl::StatusOr<int64_t> RandomBatchesOf(absl::string_view evaluation, int64_t batches);

}  // namespace tost::train

#endif  // TOST_TRAINERS_EVALUATE_LANGUAGE_H_
