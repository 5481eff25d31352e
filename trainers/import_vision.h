// `tost import` of an image classifier: one from elsewhere becomes a run that can be evaluated and
// trained on.
#ifndef TOST_TRAINERS_IMPORT_VISION_H_
#define TOST_TRAINERS_IMPORT_VISION_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/image_classifier.h"
#include "trainers/import_source.h"

namespace tost::train {

struct ImportedVision {
  models::ImageClassifierConfig config;
  std::unique_ptr<ParameterSet> params;
  std::unique_ptr<models::ImageClassifier> model;
  std::vector<std::string> class_names;  // empty: the source does not say
  std::vector<std::string> report;       // what was found and decided, a line each
};

// Reads the model into memory; `output` and `overwrite` play no part. An error when `tokenizer` is
// given.
absl::StatusOr<ImportedVision> ReadVisionModel(const ImportOptions& options);

// ReadVisionModel, the run folder, and the report on standard output.
absl::Status ImportVision(const ImportOptions& options);

}  // namespace tost::train

#endif  // TOST_TRAINERS_IMPORT_VISION_H_
