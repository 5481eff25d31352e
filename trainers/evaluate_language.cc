#include "trainers/evaluate_language.h"

#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "data/token_dataset.h"
#include "ops/loss.h"
#include "trainers/evaluate_task.h"
#include "trainers/evaluation_report.h"
#include "trainers/interrupt.h"
#include "trainers/language_run.h"
#include "trainers/progress.h"
#include "trainers/text_loss.h"

namespace tost::train {
namespace {

absl::StatusOr<data::Split> SplitNamed(absl::string_view name) {
  if (name == data::Name(data::Split::kTrain)) return data::Split::kTrain;
  if (name.empty() || name == data::Name(data::Split::kValidation)) return data::Split::kValidation;
  return absl::InvalidArgumentError(absl::StrCat("--split is train or val, not '", name, "'"));
}

// Batches of the official estimate where the user does not say.
constexpr int64_t kRandomBatches = 200;

// As EvaluateLanguage, but target by target.
absl::StatusOr<TextLoss> EvaluateByPosition(const models::LanguageModel& model,
                                            const data::Evaluation& batches, DType compute_dtype) {
  TextLoss loss;
  EvaluationProgress progress("batches", batches.batches());
  for (int64_t k = 0; k < batches.batches(); ++k) {
    TOST_ASSIGN_OR_RETURN(const data::TokenBatch batch, batches.Batch(k));
    models::Pass pass{.compute_dtype = compute_dtype};
    const std::vector<float> losses =
        model.Scores(batch.tokens.To(model.device()), batch.targets, /*candidates=*/0, pass).losses;
    const std::vector<int32_t> targets = batch.targets.ToHost<int32_t>();
    const auto length = static_cast<size_t>(batch.targets.shape()[1]);
    size_t next = 0;
    for (size_t i = 0; i < targets.size(); ++i) {
      if (targets[i] == -1) continue;
      loss.Add(static_cast<int64_t>(i % length) + 1, static_cast<double>(losses[next++]));
    }
    TOST_RETURN_IF_ERROR(progress.Advance(1));
  }
  return loss;
}

absl::Status CheckNoTaskOptions(const LanguageEvaluationOptions& options) {
  for (const auto& [name, used] : {std::pair("protocol", options.protocol != "standard"),
                                   std::pair("stride", options.stride != 0),
                                   std::pair("long_text", options.long_text != "windows")}) {
    if (used) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", name, " is for --task; see tost evaluate --help"));
    }
  }
  return absl::OkStatus();
}

EvaluationReport ReportOf(const LanguageEvaluationOptions& options, const LanguageRun& run,
                          const std::string& data_path, const TextLoss& result) {
  EvaluationReport report;
  report.Add("run", options.run);
  report.Add("checkpoint", run.checkpoint);
  report.Add("update", run.state.update);
  report.Add("compute_dtype", options.compute_dtype);
  report.Add("tost_version", options.version);
  report.Add("data", data_path);
  report.Add("split", options.split.empty() ? "val" : options.split);
  report.Add("evaluation", options.evaluation);
  report.Add("tokens_scored", result.tokens);
  report.Add("loss_per_token", result.Mean());
  report.Add("perplexity", std::exp(result.Mean()));
  report.AddPositions(result.by_position);
  return report;
}

void Print(const LanguageEvaluationOptions& options, const LanguageRun& run,
           const std::string& data_path, const TextLoss& result) {
  std::printf("checkpoint   %s (after update %lld)\n", run.checkpoint.c_str(),
              static_cast<long long>(run.state.update));
  std::printf("data         %s, %s split, %s\n", data_path.c_str(),
              options.split.empty() ? "val" : options.split.c_str(), options.evaluation.c_str());
  std::printf("targets      %s\n", FormatCount(result.tokens).c_str());
  std::printf("loss         %.4f nats per token\n", result.Mean());
  std::printf("             %.4f bits per token, perplexity %.3f\n", result.Mean() / std::log(2.0),
              std::exp(result.Mean()));
  if (options.by_position) {
    std::printf("\n%s", PositionTable(result.by_position.Buckets()).c_str());
  }
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
  const Device device = model.device();
  Tensor sum = Tensor::Zeros({}, DType::kFloat64, device);
  Evaluation evaluation;
  for (int64_t k = 0; k < batches.batches(); ++k) {
    TOST_ASSIGN_OR_RETURN(const data::TokenBatch batch, batches.Batch(k, update));
    models::Pass pass{.compute_dtype = compute_dtype};
    ops::SumLosses(model.Loss(batch.tokens.To(device), batch.targets.To(device), pass), /*scale=*/1,
                   /*add=*/true, sum);
    evaluation.targets += batch.valid_targets;
  }
  evaluation.loss = sum.Item() / static_cast<double>(evaluation.targets);
  return evaluation;
}

absl::Status EvaluateLanguageRun(const LanguageEvaluationOptions& options) {
  if (!options.task.empty()) return EvaluateTask(options);
  TOST_RETURN_IF_ERROR(CheckNoTaskOptions(options));
  TOST_ASSIGN_OR_RETURN(const DType compute_dtype, ComputeDTypeNamed(options.compute_dtype));
  TOST_ASSIGN_OR_RETURN(const data::Split split, SplitNamed(options.split));
  const int64_t asked =
      options.evaluation_batches == 0 ? kRandomBatches : options.evaluation_batches;
  TOST_ASSIGN_OR_RETURN(const int64_t random_batches, RandomBatchesOf(options.evaluation, asked));
  TOST_ASSIGN_OR_RETURN(LanguageRun run,
                        LoadLanguageRun(options.run, compute_dtype, options.device));
  const std::string data_path = options.data.empty() ? run.state.extra[kDataKey] : options.data;
  TOST_ASSIGN_OR_RETURN(const data::TokenDataset tokens,
                        OpenTokens(data_path, split, run.config, run.tokenizer));
  TOST_ASSIGN_OR_RETURN(const data::Evaluation batches,
                        data::Evaluation::Create(tokens, {.block_size = run.config.context,
                                                          .batch = options.batch,
                                                          .random_batches = random_batches,
                                                          .seed = options.seed}));
  TextLoss result;
  if (options.by_position) {
    CatchInterrupts();
    TOST_ASSIGN_OR_RETURN(result, EvaluateByPosition(*run.model, batches, compute_dtype));
  } else {
    TOST_ASSIGN_OR_RETURN(const Evaluation whole,
                          EvaluateLanguage(*run.model, batches, compute_dtype));
    result.tokens = whole.targets;
    result.sum = whole.loss * static_cast<double>(whole.targets);
  }
  Print(options, run, data_path, result);
  return ReportOf(options, run, data_path, result).WriteJson(options.json);
}

}  // namespace tost::train
