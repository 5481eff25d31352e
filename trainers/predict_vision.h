// `tost predict`: what an image classifier sees in pictures.
#ifndef TOST_TRAINERS_PREDICT_VISION_H_
#define TOST_TRAINERS_PREDICT_VISION_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "autograd/device.h"

namespace tost::train {

struct PredictOptions {
  std::string run;                    // run folder (its best weights, or the newest) or checkpoint
  std::vector<std::string> pictures;  // files; a folder stands for the files in it
  int top = 5;                        // classes to show
  bool json = false;                  // one object a line instead of a table
  std::string bad_images = "fail";    // or "skip"
  std::string compute_dtype = "float32";
  Device device;
};

// Prints, for each picture in the given order, its likeliest classes with their probabilities to
// standard output.
absl::Status Predict(const PredictOptions& options);

}  // namespace tost::train

#endif  // TOST_TRAINERS_PREDICT_VISION_H_
