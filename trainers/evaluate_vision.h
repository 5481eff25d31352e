// How well an image classifier does on a split of pictures.
#ifndef TOST_TRAINERS_EVALUATE_VISION_H_
#define TOST_TRAINERS_EVALUATE_VISION_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/image_loader.h"
#include "models/image_classifier.h"
#include "trainers/classification.h"
#include "trainers/progress.h"
#include "trainers/train_vision.h"

namespace tost::train {

// Counts every picture once. Cancelled when `progress` is given and a signal asks the program to
// end.
absl::StatusOr<ClassificationTally> EvaluateClassifier(const models::ImageClassifier& model,
                                                       data::ImageEvaluation& pictures,
                                                       DType compute_dtype,
                                                       EvaluationProgress* progress = nullptr);

struct VisionEvaluationOptions {
  std::string run;             // run folder or checkpoint
  ImageDataOptions data;       // its path "": what the run was trained on
  std::string split = "test";  // or "train", "validation"
  // Of a run folder: "best", as a split has selected them (the newest if none has), "newest", or
  // "average", the newest running average of a run that keeps one.
  std::string weights = "best";
  int64_t batch = 64;  // pictures at a time
  std::string compute_dtype = "float32";
  Device device;
  bool classes = false;   // also a line for each class
  std::string confusion;  // file for the confusion matrix as a PNG; "": none
  std::string json;       // file for the figures; "" or "-": none
  std::string version;    // of the program, for the figures
};

// `tost evaluate` of an image classifier: prints loss, top-1 and top-5 to standard output.
absl::Status EvaluateVisionRun(const VisionEvaluationOptions& options);

}  // namespace tost::train

#endif  // TOST_TRAINERS_EVALUATE_VISION_H_
