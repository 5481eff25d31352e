#include "trainers/train_vision.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "autograd/base/log.h"
#include "data/image_loader.h"
#include "data/image_sets.h"
#include "models/image_classifier.h"
#include "ops/elementwise.h"
#include "ops/loss.h"
#include "trainers/devices.h"
#include "trainers/evaluate_language.h"
#include "trainers/evaluate_vision.h"
#include "trainers/evaluation_report.h"
#include "trainers/interrupt.h"
#include "trainers/progress.h"
#include "trainers/run_folder.h"
#include "trainers/trainer.h"
#include "trainers/vision_run.h"
#include "trainers/vision_settings.h"
#include "trainers/vision_weights.h"
#include "trainers/weight_average.h"

namespace tost::train {
namespace {

constexpr char kTrained[] = "trained";
constexpr char kAverage[] = "average";

// The best evaluation so far, which best.safetensors holds the weights of.
struct Best {
  double top1 = -1;  // none yet
  int64_t update = 0;
  std::string weights;  // kTrained or kAverage

  static constexpr char kTop1Key[] = "best_top1";
  static constexpr char kWeightsKey[] = "best_weights";
};

// Everything a run owns, in the order in which it is built.
class VisionTraining {
 public:
  VisionTraining(const VisionTrainingOptions& options, const std::string& settings)
      : options_(options), settings_(settings) {}

  absl::Status Run() {
    TOST_RETURN_IF_ERROR(OpenData());
    TOST_RETURN_IF_ERROR(ChooseModel());
    TOST_RETURN_IF_ERROR(MakeLoaders());
    TOST_RETURN_IF_ERROR(BuildModel());
    TOST_RETURN_IF_ERROR(OpenRunFolder());
    LogStart();
    CatchInterrupts();
    const absl::Status status = RunTraining(Task(),
                                            {.steps = updates_,
                                             .evaluate_every = Every(options_.evaluate_every),
                                             .checkpoint_every = Every(options_.checkpoint_every),
                                             .cuda_graph = options_.cuda_graph,
                                             .log_memory = options_.log_memory},
                                            state_.update + 1, *params_, *optimizer_, *metrics_);
    if (absl::IsCancelled(status)) {
      return absl::CancelledError(absl::StrCat(
          status.message(), "; go on with: tost train vision --resume ", folder_->path()));
    }
    TOST_RETURN_IF_ERROR(status);
    return ReportResult();
  }

 private:
  absl::Status OpenData() {
    TOST_ASSIGN_OR_RETURN(sets_, OpenImages(options_.data));
    if (options_.select_on == "validation") {
      selection_ = &sets_.validation;
    } else if (options_.select_on == "test") {
      selection_ = &sets_.test;
      LogWarning(
          "the test split picks the best checkpoint; its accuracy is then no estimate of "
          "what new pictures would give, and result.json says so");
    } else if (options_.select_on != "none") {
      return absl::InvalidArgumentError(
          absl::StrCat("--select_on is validation, test or none, not '", options_.select_on, "'"));
    }
    if (selection_ == nullptr || selection_->size() > 0) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "there is no ", options_.select_on,
        " split to pick the best checkpoint on; give --validation_fraction, or --select_on none"));
  }

  absl::Status ChooseModel() {
    std::string checkpoint = options_.init;
    if (!options_.resume.empty()) {
      TOST_ASSIGN_OR_RETURN(checkpoint, CheckpointAt(options_.resume));  // the newest
    }
    const auto classes = static_cast<int64_t>(sets_.classes.size());
    if (checkpoint.empty()) {
      TOST_ASSIGN_OR_RETURN(config_, ConfigOf(options_, classes));
      return absl::OkStatus();
    }
    TOST_ASSIGN_OR_RETURN(header_, ReadVisionRunHeader(checkpoint));
    TOST_ASSIGN_OR_RETURN(config_, ConfigOfCheckpoint(options_, classes, *header_));
    return absl::OkStatus();
  }

  absl::Status MakeLoaders() {
    TOST_ASSIGN_OR_RETURN(micro_steps_, MicroSteps(options_.global_batch, options_.micro_batch));
    TOST_ASSIGN_OR_RETURN(const data::ImageLoaderOptions loader,
                          LoaderOptionsOf(options_, config_, micro_steps_));
    TOST_ASSIGN_OR_RETURN(preprocessing_, PreprocessingOf(options_, models::image_size(config_)));
    TOST_ASSIGN_OR_RETURN(loader_, data::ImageLoader::Create(sets_.train, loader));
    updates_ = UpdatesOf(options_, loader_->plan().updates);
    TOST_ASSIGN_OR_RETURN(learning_rate_, LearningRateOf(options_, loader_->plan().updates));
    if (selection_ != nullptr) selection_evaluation_ = EvaluationOf(*selection_);
    return absl::OkStatus();
  }

  std::unique_ptr<data::ImageEvaluation> EvaluationOf(const data::ImageDataset& pictures) const {
    return std::make_unique<data::ImageEvaluation>(
        pictures, data::ImageEvaluationOptions{.transform = preprocessing_.transform,
                                               .orientation = preprocessing_.orientation,
                                               .bad_images = loader_->options().bad_images,
                                               .batch = options_.global_batch / micro_steps_,
                                               .workers = options_.data.workers});
  }

  absl::Status BuildModel() {
    TOST_ASSIGN_OR_RETURN(compute_dtype_, ComputeDTypeNamed(options_.compute_dtype));
    TOST_RETURN_IF_ERROR(AllowTensorFloat32(options_.device, options_.tf32));
    if (options_.drop_path < 0 || options_.drop_path >= 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("--drop_path must be in [0, 1), got ", options_.drop_path));
    }
    if (options_.average_decay < 0 || options_.average_decay >= 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("--average_decay must be in [0, 1), got ", options_.average_decay));
    }
    params_ = std::make_unique<ParameterSet>(options_.device, options_.seed);
    model_ = std::make_unique<models::ImageClassifier>(params_->Root(), config_);
    params_->Finalize(compute_dtype_);
    TOST_RETURN_IF_ERROR(FreezeBody());
    TOST_ASSIGN_OR_RETURN(optimizer_, MakeOptimizer(options_, config_, *params_));
    if (options_.average_decay > 0) average_.emplace(*params_, options_.average_decay);
    return absl::OkStatus();
  }

  // A linear probe trains the last layer alone.
  absl::Status FreezeBody() {
    if (options_.train_only == "all") return absl::OkStatus();
    if (options_.train_only != "head") {
      return absl::InvalidArgumentError(
          absl::StrCat("--train_only is all or head, not '", options_.train_only, "'"));
    }
    head_only_ = true;
    for (const Parameter& parameter : params_->parameters()) {
      if (!models::IsHead(parameter.name())) params_->Find(parameter.name())->Freeze();
    }
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
      TOST_RETURN_IF_ERROR(ReadBest());
    }
    state_.seed = options_.seed;
    state_.config = settings_;
    state_.extra[kModelKey] = ToJson(config_);
    state_.extra[kClassesKey] = ClassNamesToJson(sets_.classes);
    state_.extra[kImageDataKey] = ToJson(options_.data);
    state_.extra[kPreprocessingKey] = ToJson(preprocessing_);
    return absl::OkStatus();
  }

  absl::Status LoadCheckpoint(bool resuming) {
    TOST_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(header_->checkpoint));
    TOST_RETURN_IF_ERROR(
        LoadStartingWeights(checkpoint, options_.reset_head && !resuming, *params_));
    if (average_.has_value()) average_->Restart();
    if (!resuming) {
      LogInfo(absl::StrCat("starting from the weights of ", header_->checkpoint,
                           options_.reset_head ? ", with a new last layer" : ""));
      return absl::OkStatus();
    }
    TOST_RETURN_IF_ERROR(checkpoint.LoadMoments(*params_, optimizer_->moments()));
    if (average_.has_value()) {
      TOST_RETURN_IF_ERROR(checkpoint.LoadAverage(*params_, average_->values()));
    }
    state_ = header_->state;
    optimizer_->set_updates(state_.update - SkippedUpdates(state_));
    LogInfo(
        absl::StrCat("resuming from ", header_->checkpoint, " (after update ", state_.update, ")"));
    return absl::OkStatus();
  }

  TrainingTask Task() {
    return {.unit = "pictures",
            .plan = [this](int64_t update) { return Plan(update); },
            .loss_sum = [this](int64_t, int micro_step) { return LossSum(micro_step); },
            .learning_rate = learning_rate_,
            .updated =
                [this](const Tensor& scalars) {
                  if (average_.has_value()) average_->Update(scalars);
                },
            .evaluate = [this](int64_t update) { return Evaluate(update); },
            .save = [this](int64_t update) { return Save(update); }};
  }

  absl::StatusOr<UpdatePlan> Plan(int64_t update) {
    batches_.clear();
    for (int micro_step = 0; micro_step < micro_steps_; ++micro_step) {
      TOST_ASSIGN_OR_RETURN(data::ImageBatch batch, loader_->Batch(update, micro_step));
      batches_.push_back(std::move(batch));
    }
    update_ = update;
    return UpdatePlan{.micro_steps = micro_steps_,
                      .targets = options_.global_batch,
                      .items = options_.global_batch,
                      .micro_batch = options_.global_batch / micro_steps_,
                      .values = {{"epoch", static_cast<double>(loader_->EpochOf(update))},
                                 {"bad_images", static_cast<double>(loader_->skipped().count())}}};
  }

  Tensor LossSum(int micro_step) {
    const data::ImageBatch& batch = batches_[static_cast<size_t>(micro_step)];
    models::Pass pass{
        .training = !head_only_,  // a frozen body keeps its running statistics, too
        .drop_path = options_.drop_path,
        .recompute = options_.recompute,
        .compute_dtype = compute_dtype_,
        .random = RandomStream(options_.seed, static_cast<uint32_t>(update_), batch.first_row)};
    const Tensor images = ops::Cast(batch.images.To(options_.device), compute_dtype_);
    return ops::SoftCrossEntropy(model_->Logits(images, pass), batch.targets.To(options_.device),
                                 ops::Reduction::kSum);
  }

  // Measures the weights, and their running average if there is one, on the split that selects.
  absl::StatusOr<EvaluationOutcome> Evaluate(int64_t update) {
    if (selection_ == nullptr) return EvaluationOutcome{.summary = "no split is set aside"};
    EvaluationOutcome outcome;
    TOST_RETURN_IF_ERROR(EvaluateWeights(update, kTrained, outcome));
    if (average_.has_value()) {
      average_->Swap();
      const absl::Status status = EvaluateWeights(update, kAverage, outcome);
      average_->Swap();
      TOST_RETURN_IF_ERROR(status);
    }
    return outcome;
  }

  absl::Status EvaluateWeights(int64_t update, const char* weights, EvaluationOutcome& outcome) {
    TOST_ASSIGN_OR_RETURN(const ClassificationTally tally,
                          EvaluateClassifier(*model_, *selection_evaluation_, compute_dtype_));
    const bool averaged = weights == kAverage;
    absl::StrAppendFormat(&outcome.summary, "%s top-1 %.2f %%, top-5 %.2f %%, loss %.4f",
                          averaged ? "; average" : options_.select_on.c_str(), 100 * tally.top1(),
                          100 * tally.top5(), tally.loss());
    const std::string prefix = averaged ? "average_" : "";
    outcome.values.emplace_back(prefix + "loss", tally.loss());
    outcome.values.emplace_back(prefix + "top1", tally.top1());
    outcome.values.emplace_back(prefix + "top5", tally.top5());
    if (!(tally.top1() > best_.top1)) return absl::OkStatus();
    best_ = {.top1 = tally.top1(), .update = update, .weights = weights};
    CheckpointState state = state_;
    state.update = update;
    state.extra[Best::kTop1Key] = absl::StrFormat("%.17g", best_.top1);
    state.extra[Best::kWeightsKey] = best_.weights;
    return SaveCheckpoint(folder_->best(), *params_, nullptr, state);
  }

  // What best.safetensors holds; nothing when there is none yet.
  absl::Status ReadBest() {
    if (!std::ifstream(folder_->best()).good()) return absl::OkStatus();
    TOST_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(folder_->best()));
    TOST_ASSIGN_OR_RETURN(CheckpointState state, checkpoint.State());
    if (!absl::SimpleAtod(state.extra[Best::kTop1Key], &best_.top1)) {
      return absl::DataLossError(absl::StrCat(folder_->best(),
                                              ": its metadata give no number for \"",
                                              Best::kTop1Key, "\"; remove the file to go on"));
    }
    best_.update = state.update;
    best_.weights = state.extra[Best::kWeightsKey];
    return absl::OkStatus();
  }

  absl::Status Save(int64_t update) {
    state_.update = update;
    state_.extra[kSkippedKey] = absl::StrCat(update - optimizer_->updates());
    const std::string path = absl::StrCat(folder_->checkpoints(), "/", CheckpointName(update));
    TOST_RETURN_IF_ERROR(SaveCheckpoint(path, *params_, &optimizer_->moments(), state_,
                                        average_.has_value() ? &average_->values() : nullptr));
    return PruneCheckpoints(folder_->checkpoints(), options_.keep_checkpoints);
  }

  // Measures the best weights, or the last where no split selects, on the test split.
  absl::Status ReportResult() {
    EvaluationReport report;
    report.Add("model", ModelName());
    report.Add("parameters", params_->element_count());
    report.Add("updates", updates_);
    report.Add("data", options_.data.data);
    report.Add("format", sets_.format);
    report.Add("protocol", sets_.protocol);
    report.Add("train_pictures", sets_.train.size());
    report.Add("validation_pictures", sets_.validation.size());
    report.Add("test_pictures", sets_.test.size());
    report.Add("selected_on", options_.select_on);
    if (selection_ != nullptr && best_.update >= 0 && best_.top1 >= 0) {
      TOST_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(folder_->best()));
      TOST_RETURN_IF_ERROR(checkpoint.LoadWeights(*params_));
      report.Add("selected_update", best_.update);
      report.Add("selected_weights", best_.weights);
      report.Add(absl::StrCat(options_.select_on, "_top1"), best_.top1);
    }
    int64_t bad_images = loader_->skipped().count();
    if (selection_ != nullptr) bad_images += selection_evaluation_->skipped().count();
    if (sets_.test.size() > 0 && selection_ != &sets_.test) {
      const std::unique_ptr<data::ImageEvaluation> test = EvaluationOf(sets_.test);
      TOST_ASSIGN_OR_RETURN(const ClassificationTally tally,
                            EvaluateClassifier(*model_, *test, compute_dtype_));
      bad_images += test->skipped().count();
      report.Add("test_top1", tally.top1());
      report.Add("test_top5", tally.top5());
      report.Add("test_loss", tally.loss());
    }
    report.Add("bad_images", bad_images);
    const std::string path = folder_->result();
    TOST_RETURN_IF_ERROR(report.WriteJson(path));
    LogInfo(absl::StrCat("result, also in ", path, ":\n", report.Table()));
    return absl::OkStatus();
  }

  int64_t Every(double epochs) const {
    if (epochs <= 0) return 0;
    return std::max<int64_t>(1, UpdatesIn(epochs, loader_->plan().updates));
  }

  std::string ModelName() const {
    if (!options_.model.empty()) return options_.model;
    return header_.has_value() ? ToJson(config_) : "tost_small_pictures_p8";
  }

  void LogStart() const {
    const int64_t pixels = models::image_size(config_);
    LogInfo(absl::StrCat("model ", ModelName(), ": ", FormatCount(params_->element_count()),
                         " parameters, ", pixels, " x ", pixels, " pixels, ",
                         models::classes(config_), " classes, ", options_.compute_dtype,
                         head_only_ ? ", only the last layer is trained" : ""));
    LogInfo(absl::StrCat("data ", options_.data.data, ": ", loader_->plan().summary));
    LogInfo(absl::StrCat("global batch ", options_.global_batch, " pictures = ", micro_steps_,
                         " micro-step", micro_steps_ == 1 ? "" : "s", " x ",
                         options_.global_batch / micro_steps_, " pictures x 1 process, ",
                         DescribeDevice(options_.device), ", ", options_.data.workers,
                         " for pictures"));
    if (options_.rate_batch > 0) {
      LogInfo(absl::StrFormat("learning rate %g x %d / %d = %g", options_.learning_rate,
                              options_.global_batch, options_.rate_batch, PeakRateOf(options_)));
    }
    LogInfo(absl::StrCat("run folder ", folder_->path(), ", updates ", state_.update + 1, " to ",
                         updates_));
  }

  const VisionTrainingOptions& options_;
  const std::string& settings_;
  data::ImageSets sets_;
  const data::ImageDataset* selection_ = nullptr;  // null: no split selects
  std::optional<VisionRunHeader> header_;          // of the checkpoint that the run starts from
  models::ImageClassifierConfig config_;
  int micro_steps_ = 1;
  std::unique_ptr<data::ImageLoader> loader_;
  Preprocessing preprocessing_;
  std::unique_ptr<data::ImageEvaluation> selection_evaluation_;  // null: no split selects
  int64_t updates_ = 0;
  LearningRate learning_rate_;
  DType compute_dtype_ = DType::kFloat32;
  bool head_only_ = false;
  std::unique_ptr<ParameterSet> params_;
  std::unique_ptr<models::ImageClassifier> model_;
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<WeightAverage> average_;
  std::optional<RunFolder> folder_;
  std::optional<MetricsWriter> metrics_;
  CheckpointState state_;
  Best best_;
  int64_t update_ = 0;                     // in work
  std::vector<data::ImageBatch> batches_;  // of that update, one per micro-step
};

}  // namespace

absl::Status TrainVision(const VisionTrainingOptions& options, const std::string& settings) {
  if (options.data.data.empty()) {
    return absl::InvalidArgumentError(
        "--data is missing: the folder or archive of a data set (docs/data.md)");
  }
  if (options.output.empty() && options.resume.empty()) {
    return absl::InvalidArgumentError("--output is missing: the folder for this run");
  }
  return VisionTraining(options, settings).Run();
}

}  // namespace tost::train
