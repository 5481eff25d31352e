// `tost import` of any kind of model that is known.
#ifndef TOST_TRAINERS_IMPORT_MODEL_H_
#define TOST_TRAINERS_IMPORT_MODEL_H_

#include "absl/status/status.h"
#include "trainers/import_source.h"

namespace tost::train {

// Tells a language model from an image classifier by the names of its tensors, and imports it.
absl::Status ImportModel(const ImportOptions& options);

}  // namespace tost::train

#endif  // TOST_TRAINERS_IMPORT_MODEL_H_
