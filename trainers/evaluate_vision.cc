#include "trainers/evaluate_vision.h"

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "data/image_write.h"
#include "ops/elementwise.h"
#include "trainers/evaluate_language.h"
#include "trainers/evaluation_report.h"
#include "trainers/interrupt.h"
#include "trainers/run_folder.h"
#include "trainers/vision_run.h"
#include "trainers/vision_settings.h"
#include "trainers/weight_average.h"

namespace tost::train {
namespace {

absl::StatusOr<const data::ImageDataset*> SplitNamed(const data::ImageSets& sets,
                                                     const std::string& name) {
  for (const auto& [split, pictures] :
       {std::pair("train", &sets.train), std::pair("validation", &sets.validation),
        std::pair("test", &sets.test)}) {
    if (name != split) continue;
    if (pictures->size() > 0) return pictures;
    return absl::InvalidArgumentError(
        absl::StrCat("the ", sets.format, " data have no ", name, " split: ", sets.protocol));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--split is train, validation or test, not '", name, "'"));
}

absl::StatusOr<VisionRun> LoadWeights(const VisionEvaluationOptions& options, DType compute_dtype) {
  const std::string& weights = options.weights;
  if (weights == "best") return LoadVisionRun(options.run, compute_dtype, options.device);
  if (weights != "newest" && weights != "average") {
    return absl::InvalidArgumentError(
        absl::StrCat("--weights is best, newest or average, not '", weights, "'"));
  }
  TOST_ASSIGN_OR_RETURN(const std::string newest, CheckpointAt(options.run));
  TOST_ASSIGN_OR_RETURN(VisionRun run, LoadVisionRun(newest, compute_dtype, options.device));
  if (weights == "newest") return run;
  TOST_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(run.checkpoint));
  if (!checkpoint.has_average()) {
    return absl::InvalidArgumentError(
        absl::StrCat(run.checkpoint,
                     " holds no running average; train with --average_decay, or leave "
                     "--weights out"));
  }
  WeightAverage average(*run.params, /*decay=*/0);
  TOST_RETURN_IF_ERROR(checkpoint.LoadAverage(*run.params, average.values()));
  average.Swap();
  return run;
}

// An error when the data's classes are not the model's, as far as both are known.
absl::Status RequireSameClasses(const VisionRun& run, const data::ImageSets& sets) {
  if (run.class_names.empty() || run.class_names == sets.classes) return absl::OkStatus();
  if (run.class_names.size() == sets.classes.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the data's classes (", sets.classes[0],
                                                   ", …) are not those that ", run.checkpoint,
                                                   " knows (", run.class_names[0], ", …)"));
  }
  return absl::InvalidArgumentError(absl::StrCat(run.checkpoint, " knows ", run.class_names.size(),
                                                 " classes, but the data have ",
                                                 sets.classes.size()));
}

EvaluationReport ReportOf(const VisionEvaluationOptions& options, const VisionRun& run,
                          const data::ImageSets& sets, const ClassificationTally& tally,
                          int64_t skipped) {
  EvaluationReport report;
  report.Add("run", options.run);
  report.Add("checkpoint", run.checkpoint);
  report.Add("update", run.state.update);
  report.Add("weights", options.weights);
  report.Add("compute_dtype", options.compute_dtype);
  report.Add("tost_version", options.version);
  report.Add("data", options.data.data);
  report.Add("format", sets.format);
  report.Add("protocol", sets.protocol);
  report.Add("split", options.split);
  report.Add("pictures", tally.count());
  report.Add("bad_images", skipped);
  report.Add("loss", tally.loss());
  report.Add("top1", tally.top1());
  report.Add("top5", tally.top5());
  return report;
}

void Print(const VisionEvaluationOptions& options, const VisionRun& run,
           const data::ImageSets& sets, const ClassificationTally& tally, int64_t skipped) {
  std::printf("checkpoint   %s (after update %lld), %s weights\n", run.checkpoint.c_str(),
              static_cast<long long>(run.state.update), options.weights.c_str());
  std::printf("data         %s, %s, %s split\n", options.data.data.c_str(), sets.protocol.c_str(),
              options.split.c_str());
  std::printf("pictures     %s", FormatCount(tally.count()).c_str());
  if (skipped > 0) std::printf(" (%s bad ones skipped)", FormatCount(skipped).c_str());
  std::printf("\ntop-1        %.2f %%\ntop-5        %.2f %%\nloss         %.4f nats\n",
              100 * tally.top1(), 100 * tally.top5(), tally.loss());
  if (options.classes) std::printf("\n%s", ClassTable(tally, sets.classes).c_str());
}

}  // namespace

absl::StatusOr<ClassificationTally> EvaluateClassifier(const models::ImageClassifier& model,
                                                       data::ImageEvaluation& pictures,
                                                       DType compute_dtype,
                                                       EvaluationProgress* progress) {
  ClassificationTally tally(models::classes(model.config()));
  for (int64_t k = 0; k < pictures.batches(); ++k) {
    TOST_ASSIGN_OR_RETURN(const data::ImageEvaluationBatch batch, pictures.Batch(k));
    if (!batch.labels.empty()) {
      models::Pass pass{.compute_dtype = compute_dtype};
      const Tensor images = ops::Cast(batch.images.To(model.device()), compute_dtype);
      tally.Add(model.Logits(images, pass), batch.labels);
    }
    if (progress != nullptr) {
      TOST_RETURN_IF_ERROR(progress->Advance(static_cast<int64_t>(batch.labels.size())));
    }
  }
  return tally;
}

absl::Status EvaluateVisionRun(const VisionEvaluationOptions& asked) {
  VisionEvaluationOptions options = asked;
  TOST_ASSIGN_OR_RETURN(const DType compute_dtype, ComputeDTypeNamed(options.compute_dtype));
  TOST_ASSIGN_OR_RETURN(const VisionRun run, LoadWeights(options, compute_dtype));
  TOST_ASSIGN_OR_RETURN(options.data, DataOptionsFor(options.data, run.state));
  TOST_ASSIGN_OR_RETURN(const data::ImageSets sets, OpenImages(options.data));
  TOST_RETURN_IF_ERROR(RequireSameClasses(run, sets));
  TOST_ASSIGN_OR_RETURN(const data::ImageDataset* pictures, SplitNamed(sets, options.split));
  TOST_ASSIGN_OR_RETURN(const Preprocessing preprocessing,
                        PreprocessingOf(run.state, run.checkpoint, run.config));
  TOST_ASSIGN_OR_RETURN(const data::BadImages bad_images,
                        data::BadImagesNamed(options.data.bad_images));
  data::ImageEvaluation evaluation(*pictures, {.transform = preprocessing.transform,
                                               .orientation = preprocessing.orientation,
                                               .bad_images = bad_images,
                                               .batch = options.batch,
                                               .workers = options.data.workers});
  CatchInterrupts();
  EvaluationProgress progress("pictures", pictures->size());
  TOST_ASSIGN_OR_RETURN(const ClassificationTally tally,
                        EvaluateClassifier(*run.model, evaluation, compute_dtype, &progress));
  const int64_t skipped = evaluation.skipped().count();
  Print(options, run, sets, tally, skipped);
  if (!options.confusion.empty()) {
    TOST_RETURN_IF_ERROR(data::WritePng(options.confusion, ConfusionPicture(tally, sets.classes)));
    std::printf("confusion    %s\n", options.confusion.c_str());
  }
  return ReportOf(options, run, sets, tally, skipped).WriteJson(options.json);
}

}  // namespace tost::train
