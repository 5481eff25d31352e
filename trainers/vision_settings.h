// What the settings of vision runs mean, and which of them contradict each other.
#ifndef TOST_TRAINERS_VISION_SETTINGS_H_
#define TOST_TRAINERS_VISION_SETTINGS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "data/image_loader.h"
#include "data/image_sets.h"
#include "models/image_classifier.h"
#include "trainers/optimizer.h"
#include "trainers/train_vision.h"
#include "trainers/vision_run.h"

namespace tost::train {

// How a run turns a picture into what its model sees in evaluation. Checkpoints carry it, so that
// evaluation and prediction do the same.
struct Preprocessing {
  data::EvaluationTransform transform;
  data::Orientation orientation = data::Orientation::kUpright;
};
inline constexpr char kPreprocessingKey[] = "preprocessing";  // in CheckpointState::extra
std::string ToJson(const Preprocessing& preprocessing);
absl::StatusOr<Preprocessing> PreprocessingFromJson(absl::string_view json,
                                                    absl::string_view source);

// The preprocessing that a checkpoint carries, or, where it carries none as after an import, that
// of the official evaluation: bicubic, the middle 7/8, upright.
absl::StatusOr<Preprocessing> PreprocessingOf(const CheckpointState& state,
                                              const std::string& source,
                                              const models::ImageClassifierConfig& config);

// Logs where the pictures come from and how they are split.
absl::StatusOr<data::ImageSets> OpenImages(const ImageDataOptions& options);

// Checkpoints carry what the pictures were, for evaluation without saying it again.
inline constexpr char kImageDataKey[] = "image_data";  // in CheckpointState::extra
std::string ToJson(const ImageDataOptions& options);
// `options`, or, when these name no data, those of the run, with the bad-picture policy and the
// workers of `options`. An error when neither names any.
absl::StatusOr<ImageDataOptions> DataOptionsFor(const ImageDataOptions& options,
                                                const CheckpointState& state);

// The architecture of a run that starts from random weights.
absl::StatusOr<models::ImageClassifierConfig> ConfigOf(const VisionTrainingOptions& options,
                                                       int64_t classes);
// The architecture of a run that goes on with or starts from a checkpoint: the checkpoint's, for
// the classes of the data and the picture size asked for. Errors: settings that contradict it,
// other classes without --reset_head.
absl::StatusOr<models::ImageClassifierConfig> ConfigOfCheckpoint(
    const VisionTrainingOptions& options, int64_t classes, const VisionRunHeader& header);

absl::StatusOr<Preprocessing> PreprocessingOf(const VisionTrainingOptions& options,
                                              int64_t image_size);
absl::StatusOr<data::ImageLoaderOptions> LoaderOptionsOf(
    const VisionTrainingOptions& options, const models::ImageClassifierConfig& config,
    int micro_steps);

// `epochs` of `updates_per_epoch` updates, rounded to whole updates.
int64_t UpdatesIn(double epochs, int64_t updates_per_epoch);
// Updates in all: what --steps says, or else --epochs.
int64_t UpdatesOf(const VisionTrainingOptions& options, int64_t updates_per_epoch);

// The learning rate of an update, from 1.
using LearningRate = std::function<float(int64_t update)>;
absl::StatusOr<LearningRate> LearningRateOf(const VisionTrainingOptions& options,
                                            int64_t updates_per_epoch);
// The peak rate after scaling by the batch, if asked for.
float PeakRateOf(const VisionTrainingOptions& options);

// timm's rule, by which the official pretraining decays: everything but vectors, biases and the
// class token, so the temperatures, too.
bool DecaysInOfficialPretraining(const Parameter& parameter);

// The optimizer of `params`, which are those of a model of `config`.
absl::StatusOr<std::unique_ptr<Optimizer>> MakeOptimizer(
    const VisionTrainingOptions& options, const models::ImageClassifierConfig& config,
    ParameterSet& params);

}  // namespace tost::train

#endif  // TOST_TRAINERS_VISION_SETTINGS_H_
