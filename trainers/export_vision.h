// `tost export` of an image classifier, and of whatever kind of model a run holds.
#ifndef TOST_TRAINERS_EXPORT_VISION_H_
#define TOST_TRAINERS_EXPORT_VISION_H_

#include "absl/status/status.h"
#include "trainers/export_files.h"

namespace tost::train {

// model.safetensors with the official names, batch norm's statistics and num_batches_tracked
// included, so that load_state_dict(…, strict=True) of the official code takes it; config.json, our
// architecture; classes.json, the names of the classes if they are known. Statistics stay float32.
// With `check` the folder is imported again, in memory, and the logits of a random picture are
// compared. An error for the Hugging Face format, which knows none of these models.
absl::Status ExportVision(const ExportOptions& options);

// ExportVision or ExportLanguage, by what the run holds.
absl::Status ExportModel(const ExportOptions& options);

}  // namespace tost::train

#endif  // TOST_TRAINERS_EXPORT_VISION_H_
