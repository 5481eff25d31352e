// The loss of a language model on a split of token data.
#ifndef TOST_TRAINERS_EVALUATE_LANGUAGE_H_
#define TOST_TRAINERS_EVALUATE_LANGUAGE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "data/loader.h"
#include "models/language_model.h"

namespace tost::train {

struct Evaluation {
  double loss = 0;  // mean over the targets, nats
  int64_t targets = 0;
};

// Mean negative log-likelihood over all targets of the batches: sums are divided by counts once, at
// the end. `update` varies the windows of the official random estimate.
absl::StatusOr<Evaluation> EvaluateLanguage(const models::LanguageModel& model,
                                            const data::Evaluation& batches, DType compute_dtype,
                                            int64_t update = 0);

struct LanguageEvaluationOptions {
  std::string run;                   // run folder or checkpoint
  std::string data;                  // folder or file; "": what the run was trained on
  std::string split;                 // "train", "val" or "test"; "": "val", and as the task has it
  std::string evaluation = "whole";  // or "random_windows", the official estimate
  int64_t evaluation_batches = 0;    // of random windows; 0: 200, and 1000 of a task
  int64_t batch = 32;                // sequences at a time
  uint64_t seed = 1337;              // of random windows
  std::string compute_dtype = "float32";
  Device device;
  bool by_position = false;  // also print losses by the number of tokens before the target
  std::string json;          // file for the figures; "" or "-": none
  std::string version;       // of the program, for the figures

  std::string task;  // "": a split of token files; else see trainers/evaluation_task.h
  std::string protocol = "standard";  // or "official"
  int64_t stride = 0;                 // of sliding windows; 0: half the context
  std::string long_text = "windows";  // or "streaming"
};

// `tost evaluate`: prints loss, perplexity and bits per token, or the figures of a task, to
// standard output.
absl::Status EvaluateLanguageRun(const LanguageEvaluationOptions& options);

// "float32" or "bfloat16".
absl::StatusOr<DType> ComputeDTypeNamed(absl::string_view name);

// "whole" gives 0, "random_windows" gives `batches`: what data::EvaluationOptions wants.
absl::StatusOr<int64_t> RandomBatchesOf(absl::string_view evaluation, int64_t batches);

}  // namespace tost::train

#endif  // TOST_TRAINERS_EVALUATE_LANGUAGE_H_
