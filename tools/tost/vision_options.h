// The settings of a vision run, which training and the look at its pictures have in common.
#ifndef TOST_TOOLS_TOST_VISION_OPTIONS_H_
#define TOST_TOOLS_TOST_VISION_OPTIONS_H_

#include "tools/tost/command_line.h"
#include "trainers/train_vision.h"

namespace tost {

// Declares every setting that a recipe may have.
void AddVisionSettings(Command& command, train::VisionTrainingOptions& o);

}  // namespace tost

#endif  // TOST_TOOLS_TOST_VISION_OPTIONS_H_
