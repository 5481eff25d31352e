#include "trainers/evaluate_language.h"

#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "data/token_dataset.h"
#include "trainers/language_run.h"
#include "trainers/progress.h"

namespace tost::train {
namespace {

absl::StatusOr<data::Split> SplitNamed(absl::string_view name) {
  if (name == data::Name(data::Split::kTrain)) return data::Split::kTrain;
  if (name == data::Name(data::Split::kValidation)) return data::Split::kValidation;
  return absl::InvalidArgumentError(absl::StrCat("--split is train or val, not '", name, "'"));
}

}  // namespace

absl::StatusOr<DType> ComputeDTypeNamed(absl::string_view name) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    if (name == Name(dtype)) return dtype;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--compute_dtype is float32 or bfloat16, not '", name, "'"));
}

absl::StatusOr<int64_t> RandomBatchesOf(absl::string_view evaluation, int64_t batches) {
  if (evaluation == "whole") return 0;
  if (evaluation != "random_windows") {
    return absl::InvalidArgumentError(
        absl::StrCat("--evaluation is whole or random_windows, not '", evaluation, "'"));
  }
  if (batches < 1) return absl::InvalidArgumentError("--evaluation_batches must be at least 1");
  return batches;
}

absl::StatusOr<Evaluation> EvaluateLanguage(const models::LanguageModel& model,
                                            const data::Evaluation& batches, DType compute_dtype,
                                            int64_t update) {
  double sum = 0;
  Evaluation evaluation;
  for (int64_t k = 0; k < batches.batches(); ++k) {
    TOST_ASSIGN_OR_RETURN(const data::TokenBatch batch, batches.Batch(k, update));
    models::Pass pass{.compute_dtype = compute_dtype};
    sum += model.Loss(batch.tokens, batch.targets, pass).Item();
    evaluation.targets += batch.valid_targets;
  }
  evaluation.loss = sum / static_cast<double>(evaluation.targets);
  return evaluation;
}

absl::Status EvaluateLanguageRun(const LanguageEvaluationOptions& options) {
  TOST_ASSIGN_OR_RETURN(const DType compute_dtype, ComputeDTypeNamed(options.compute_dtype));
  TOST_ASSIGN_OR_RETURN(const data::Split split, SplitNamed(options.split));
  TOST_ASSIGN_OR_RETURN(const int64_t random_batches,
                        RandomBatchesOf(options.evaluation, options.evaluation_batches));
  TOST_ASSIGN_OR_RETURN(LanguageRun run, LoadLanguageRun(options.run, compute_dtype));
  const std::string data_path = options.data.empty() ? run.state.extra[kDataKey] : options.data;
  TOST_ASSIGN_OR_RETURN(const data::TokenDataset tokens,
                        data::TokenDataset::Open(data_path, split, run.config.vocabulary));
  TOST_ASSIGN_OR_RETURN(const data::Evaluation batches,
                        data::Evaluation::Create(tokens, {.block_size = run.config.context,
                                                          .batch = options.batch,
                                                          .random_batches = random_batches,
                                                          .seed = options.seed}));
  TOST_ASSIGN_OR_RETURN(const Evaluation result,
                        EvaluateLanguage(*run.model, batches, compute_dtype));
  std::printf("checkpoint   %s (after update %lld)\n", run.checkpoint.c_str(),
              static_cast<long long>(run.state.update));
  std::printf("data         %s, %s split, %s\n", data_path.c_str(), options.split.c_str(),
              options.evaluation.c_str());
  std::printf("targets      %s\n", FormatCount(result.targets).c_str());
  std::printf("loss         %.4f nats per token\n", result.loss);
  std::printf("             %.4f bits per token, perplexity %.3f\n", result.loss / std::log(2.0),
              std::exp(result.loss));
  return absl::OkStatus();
}

}  // namespace tost::train
