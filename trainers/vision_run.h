// A trained image classifier as it lies in a run folder: weights, architecture, names of classes.
#ifndef TOST_TRAINERS_VISION_RUN_H_
#define TOST_TRAINERS_VISION_RUN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "models/image_classifier.h"
#include "trainers/checkpoint.h"

namespace tost::train {

// The architecture as checkpoints store it, every field of the configuration:
//   {"architecture": "token_statistics", "image_size": 224, "patch": 16, "width": 192, …}
// with "attention", "cross_covariance" and "crate" for the others.
std::string ToJson(const models::ImageClassifierConfig& config);
// Errors, one line naming `source`: no such description, an unknown architecture, a field that is
// missing or does not fit, the description of a language model.
absl::StatusOr<models::ImageClassifierConfig> ImageClassifierConfigFromJson(
    absl::string_view json, absl::string_view source);

// Whether a run's description of its model is that of an image classifier, as against a language
// model; of what it says nothing else is checked.
bool DescribesImageClassifier(absl::string_view json);

// CheckpointState::extra under this key: the names of the classes, from 0, as a JSON array of
// strings.
inline constexpr char kClassesKey[] = "classes";
std::string ClassNamesToJson(const std::vector<std::string>& names);
// An error, one line naming `source`, unless it is such an array of `classes` names.
absl::StatusOr<std::vector<std::string>> ClassNamesFromJson(absl::string_view json, int64_t classes,
                                                            absl::string_view source);
// The file of an export that holds them.
inline constexpr char kClassesFile[] = "classes.json";

// The architecture alone, and what else the checkpoint says of itself; reads no weights.
struct VisionRunHeader {
  std::string checkpoint;  // path of the file
  CheckpointState state;
  models::ImageClassifierConfig config;
  std::vector<std::string> class_names;  // empty: unknown
};
// `path` is a checkpoint file or a run folder, which stands for its best weights, or for its newest
// checkpoint where no split has selected any.
absl::StatusOr<VisionRunHeader> ReadVisionRunHeader(const std::string& path);

struct VisionRun {
  std::string checkpoint;
  CheckpointState state;
  models::ImageClassifierConfig config;
  std::vector<std::string> class_names;
  std::unique_ptr<ParameterSet> params;
  std::unique_ptr<models::ImageClassifier> model;
};
absl::StatusOr<VisionRun> LoadVisionRun(const std::string& path, DType compute_dtype,
                                        Device device = Device::Cpu());

}  // namespace tost::train

#endif  // TOST_TRAINERS_VISION_RUN_H_
