#include "trainers/train_language.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "autograd/base/log.h"
#include "data/loader.h"
#include "data/token_dataset.h"
#include "data/tokenizer.h"
#include "trainers/devices.h"
#include "trainers/evaluate_language.h"
#include "trainers/interrupt.h"
#include "trainers/language_run.h"
#include "trainers/language_settings.h"
#include "trainers/progress.h"
#include "trainers/run_folder.h"
#include "trainers/trainer.h"

namespace tost::train {
namespace {

// Everything a run owns, in the order in which it is built.
class LanguageTraining {
 public:
  LanguageTraining(const LanguageTrainingOptions& options, const std::string& settings)
      : options_(options), settings_(settings) {}

  absl::Status Run() {
    TOST_RETURN_IF_ERROR(OpenData());
    TOST_RETURN_IF_ERROR(BuildModel());
    TOST_RETURN_IF_ERROR(OpenRunFolder());
    LogStart();
    CatchInterrupts();
    const absl::Status status = RunTraining(Task(),
                                            {.steps = UpdatesOf(options_),
                                             .evaluate_every = options_.evaluate_every,
                                             .checkpoint_every = options_.checkpoint_every,
                                             .cuda_graph = options_.cuda_graph,
                                             .log_memory = options_.log_memory},
                                            state_.update + 1, *params_, *optimizer_, *metrics_);
    if (!absl::IsCancelled(status)) return status;
    return absl::CancelledError(absl::StrCat(
        status.message(), "; go on with: tost train language --resume ", folder_->path()));
  }

 private:
  absl::Status OpenData() {
    TOST_ASSIGN_OR_RETURN(tokenizer_, TokenizerOf(options_));
    TOST_RETURN_IF_ERROR(ChooseModel());
    TOST_ASSIGN_OR_RETURN(train_,
                          OpenTokens(options_.data, data::Split::kTrain, config_, tokenizer_));
    TOST_ASSIGN_OR_RETURN(validation_,
                          OpenTokens(options_.data, data::Split::kValidation, config_, tokenizer_));
    TOST_ASSIGN_OR_RETURN(micro_steps_, MicroSteps(options_.global_batch, options_.micro_batch));
    TOST_ASSIGN_OR_RETURN(const data::Sampling sampling, data::SamplingNamed(options_.sampling));
    TOST_ASSIGN_OR_RETURN(
        loader_, data::Loader::Create(*train_, {.block_size = config_.context,
                                                .micro_batch = options_.global_batch / micro_steps_,
                                                .micro_steps = micro_steps_,
                                                .seed = options_.seed,
                                                .sampling = sampling}));
    TOST_ASSIGN_OR_RETURN(const int64_t random_batches,
                          RandomBatchesOf(options_.evaluation, options_.evaluation_batches));
    TOST_ASSIGN_OR_RETURN(
        evaluation_,
        data::Evaluation::Create(*validation_, {.block_size = config_.context,
                                                .batch = options_.global_batch / micro_steps_,
                                                .random_batches = random_batches,
                                                .seed = options_.seed}));
    return absl::OkStatus();
  }

  // A run goes on with, or starts from, the architecture of a checkpoint, or has its own.
  absl::Status ChooseModel() {
    const std::string& checkpoint = options_.resume.empty() ? options_.init : options_.resume;
    if (checkpoint.empty()) {
      TOST_ASSIGN_OR_RETURN(config_, ConfigOf(options_, tokenizer_));
      return absl::OkStatus();
    }
    TOST_ASSIGN_OR_RETURN(header_, ReadLanguageRunHeader(checkpoint));
    TOST_ASSIGN_OR_RETURN(config_, ConfigOfCheckpoint(options_, tokenizer_, *header_));
    return absl::OkStatus();
  }

  absl::Status BuildModel() {
    TOST_ASSIGN_OR_RETURN(compute_dtype_, ComputeDTypeNamed(options_.compute_dtype));
    TOST_RETURN_IF_ERROR(AllowTensorFloat32(options_.device, options_.tf32));
    TOST_ASSIGN_OR_RETURN(schedule_, ScheduleOf(options_));
    if (options_.dropout < 0 || options_.dropout >= 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("--dropout must be in [0, 1), got ", options_.dropout));
    }
    params_ = std::make_unique<ParameterSet>(options_.device, options_.seed);
    model_ = std::make_unique<models::LanguageModel>(params_->Root(), config_);
    params_->Finalize(compute_dtype_);
    optimizer_ =
        std::make_unique<AdamW>(*params_, OptimizerOptions{.beta1 = options_.beta1,
                                                           .beta2 = options_.beta2,
                                                           .weight_decay = options_.weight_decay,
                                                           .clip_norm = options_.clip_norm});
    return absl::OkStatus();
  }

  absl::Status OpenRunFolder() {
    const bool resuming = !options_.resume.empty();
    const RunMode mode = resuming             ? RunMode::kResume
                         : options_.overwrite ? RunMode::kOverwrite
                                              : RunMode::kNew;
    // A checkpoint that does not fit is found before anything in the folder is touched.
    if (header_.has_value()) TOST_RETURN_IF_ERROR(LoadCheckpoint(resuming));
    TOST_ASSIGN_OR_RETURN(folder_,
                          RunFolder::Open(resuming ? options_.resume : options_.output, mode));
    TOST_RETURN_IF_ERROR(folder_->WriteConfig(settings_));
    TOST_ASSIGN_OR_RETURN(metrics_, MetricsWriter::Open(folder_->metrics()));
    if (resuming) {
      TOST_RETURN_IF_ERROR(metrics_->Write({.update = state_.update, .kind = "resume"}));
    }
    state_.seed = options_.seed;
    state_.config = settings_;
    if (tokenizer_.has_value()) state_.vocabulary = tokenizer_->ToJson();
    state_.extra[kModelKey] = ToJson(config_);
    state_.extra[kDataKey] = options_.data;
    return absl::OkStatus();
  }

  absl::Status LoadCheckpoint(bool resuming) {
    TOST_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(header_->checkpoint));
    TOST_RETURN_IF_ERROR(checkpoint.LoadWeights(*params_));
    if (!resuming) {
      LogInfo(absl::StrCat("starting from the weights of ", header_->checkpoint));
      if (!tokenizer_.has_value()) state_.vocabulary = header_->state.vocabulary;
      return absl::OkStatus();
    }
    TOST_RETURN_IF_ERROR(checkpoint.LoadMoments(*params_, optimizer_->moments()));
    state_ = header_->state;
    optimizer_->set_updates(state_.update - SkippedUpdates(state_));
    LogInfo(
        absl::StrCat("resuming from ", header_->checkpoint, " (after update ", state_.update, ")"));
    return absl::OkStatus();
  }

  TrainingTask Task() {
    return {
        .plan = [this](int64_t update) { return Plan(update); },
        .loss_sum = [this](int64_t update, int micro_step) { return LossSum(update, micro_step); },
        .learning_rate =
            [this](int64_t update) { return LearningRateAt(options_, schedule_, update); },
        .evaluate = [this](int64_t update) { return Evaluate(update); },
        .save = [this](int64_t update) { return Save(update); }};
  }

  absl::StatusOr<UpdatePlan> Plan(int64_t update) {
    UpdatePlan plan{.micro_steps = micro_steps_,
                    .micro_batch = options_.global_batch / micro_steps_,
                    .values = {{"epoch", static_cast<double>(loader_->EpochOf(update))},
                               {"shard", static_cast<double>(loader_->ShardOf(update))}}};
    batches_.clear();
    for (int micro_step = 0; micro_step < micro_steps_; ++micro_step) {
      TOST_ASSIGN_OR_RETURN(data::TokenBatch batch, loader_->Batch(update, micro_step));
      plan.targets += batch.valid_targets;
      plan.items += batch.tokens.numel();
      batches_.push_back(std::move(batch));
    }
    state_.tokens += plan.items;
    return plan;
  }

  Tensor LossSum(int64_t update, int micro_step) {
    const data::TokenBatch& batch = batches_[static_cast<size_t>(micro_step)];
    models::Pass pass{
        .training = true,
        .dropout = options_.dropout,
        .recompute = options_.recompute,
        .compute_dtype = compute_dtype_,
        .random = RandomStream(options_.seed, static_cast<uint32_t>(update), batch.first_row)};
    return model_->Loss(batch.tokens.To(options_.device), batch.targets.To(options_.device), pass);
  }

  absl::StatusOr<EvaluationOutcome> Evaluate(int64_t update) {
    TOST_ASSIGN_OR_RETURN(const Evaluation evaluation,
                          EvaluateLanguage(*model_, *evaluation_, compute_dtype_, update));
    return EvaluationOutcome{
        .summary = absl::StrFormat("validation loss %.4f nats per token (%s tokens)",
                                   evaluation.loss, FormatCount(evaluation.targets)),
        .values = {{"loss", evaluation.loss}}};
  }

  absl::Status Save(int64_t update) {
    state_.update = update;
    state_.extra[kSkippedKey] = absl::StrCat(update - optimizer_->updates());
    const std::string path = absl::StrCat(folder_->checkpoints(), "/", CheckpointName(update));
    TOST_RETURN_IF_ERROR(SaveCheckpoint(path, *params_, &optimizer_->moments(), state_));
    return PruneCheckpoints(folder_->checkpoints(), options_.keep_checkpoints);
  }

  std::string ModelName() const {
    if (!options_.model.empty()) return options_.model;
    return config_.mixer == models::Mixer::kTssa ? "tost" : "gpt2";
  }

  void LogStart() const {
    LogInfo(absl::StrCat("model ", ModelName(), ": ", FormatCount(params_->element_count()),
                         " parameters, ", config_.layers, " layers, ", config_.heads, " heads, ",
                         config_.width, " wide, context ", config_.context, ", vocabulary ",
                         config_.vocabulary, ", ", options_.compute_dtype));
    LogInfo(absl::StrCat("data ", options_.data, ": ", loader_->plan().summary));
    LogInfo(absl::StrCat("global batch ", options_.global_batch, " sequences = ", micro_steps_,
                         " micro-step", micro_steps_ == 1 ? "" : "s", " x ",
                         options_.global_batch / micro_steps_, " sequences x 1 process, ",
                         DescribeDevice(options_.device)));
    LogInfo(absl::StrCat("run folder ", folder_->path(), ", updates ", state_.update + 1, " to ",
                         UpdatesOf(options_)));
  }

  const LanguageTrainingOptions& options_;
  const std::string& settings_;
  std::optional<data::Tokenizer> tokenizer_;
  std::optional<LanguageRunHeader> header_;  // of the checkpoint that the run starts from
  models::LanguageConfig config_;
  std::optional<data::TokenDataset> train_, validation_;
  int micro_steps_ = 1;
  std::unique_ptr<data::Loader> loader_;
  std::optional<data::Evaluation> evaluation_;
  DType compute_dtype_ = DType::kFloat32;
  WarmupCosine schedule_{};
  std::unique_ptr<ParameterSet> params_;
  std::unique_ptr<models::LanguageModel> model_;
  std::unique_ptr<AdamW> optimizer_;
  std::optional<RunFolder> folder_;
  std::optional<MetricsWriter> metrics_;
  CheckpointState state_;
  std::vector<data::TokenBatch> batches_;  // of the update in work, one per micro-step
};

}  // namespace

absl::Status TrainLanguage(const LanguageTrainingOptions& options, const std::string& settings) {
  if (options.data.empty()) {
    return absl::InvalidArgumentError("--data is missing: the folder that `tost prepare` wrote");
  }
  if (options.output.empty() && options.resume.empty()) {
    return absl::InvalidArgumentError("--output is missing: the folder for this run");
  }
  return LanguageTraining(options, settings).Run();
}

}  // namespace tost::train
