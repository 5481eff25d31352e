// `tost inspect augment`: what training sees of its pictures.
#ifndef TOST_TRAINERS_INSPECT_AUGMENT_H_
#define TOST_TRAINERS_INSPECT_AUGMENT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "trainers/train_vision.h"

namespace tost::train {

// Draws the pictures of an update of a run with these settings, as the model gets them, on a
// contact sheet, each over its labels and their shares, and writes it as a PNG. Of a run's settings
// only those of data, augmentation, batch and picture size play a part. Equal settings give equal
// bytes.
absl::Status InspectAugment(const VisionTrainingOptions& options, int64_t update,
                            const std::string& sheet);

}  // namespace tost::train

#endif  // TOST_TRAINERS_INSPECT_AUGMENT_H_
