// Options of pictures and their augmentation, which several commands have.
#ifndef TOST_TOOLS_TOST_VISION_OPTIONS_H_
#define TOST_TOOLS_TOST_VISION_OPTIONS_H_

#include "tools/tost/command_line.h"
#include "trainers/train_vision.h"

namespace tost {

void AddImageData(Command& command, train::ImageDataOptions& o);
void AddVisionAugmentation(Command& command, train::VisionTrainingOptions& o);

}  // namespace tost

#endif  // TOST_TOOLS_TOST_VISION_OPTIONS_H_
