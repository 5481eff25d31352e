// Every image classifier behind one door: those of vision_model.h and CRATE.
#ifndef TOST_MODELS_IMAGE_CLASSIFIER_H_
#define TOST_MODELS_IMAGE_CLASSIFIER_H_

#include <cstdint>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "models/crate.h"
#include "models/vision_model.h"

namespace tost::models {

using ImageClassifierConfig = std::variant<VisionConfig, CrateConfig>;

absl::Status Validate(const ImageClassifierConfig& config);
int64_t classes(const ImageClassifierConfig& config);
int64_t image_size(const ImageClassifierConfig& config);  // pixels in both directions
ImageClassifierConfig WithClasses(ImageClassifierConfig config, int64_t classes);
ImageClassifierConfig WithImageSize(ImageClassifierConfig config, int64_t pixels);

class ImageClassifier {
 public:
  // Declares all parameters below `scope`. CHECKs Validate(config).
  ImageClassifier(ParameterScope scope, const ImageClassifierConfig& config);

  // images [B, H, W, 3], channels last → logits [B, classes] in pass.compute_dtype.
  Tensor Logits(const Tensor& images, Pass& pass) const { return Head(Features(images, pass)); }
  // What the last linear layer reads [B, C], and that layer.
  Tensor Features(const Tensor& images, Pass& pass) const;
  Tensor Head(const Tensor& features) const;

  const ImageClassifierConfig& config() const { return config_; }
  // Where its weights are, and its inputs belong.
  Device device() const { return device_; }

 private:
  ImageClassifierConfig config_;
  Device device_;
  std::variant<VisionModel, CrateModel> model_;
};

// Depth in the sense of layer-wise learning rates: blocks and class-attention blocks.
int DepthOf(const ImageClassifierConfig& config);

// The layer of a parameter of such a model: 0 for stem, positions and class token, i + 1 for block
// i, then the class-attention blocks, and DepthOf + 1 for the final norm and the head. CHECKs that
// the name is one of the model's kind.
int LayerOf(const ImageClassifierConfig& config, absl::string_view parameter);

// Whether a parameter belongs to the last linear layer.
bool IsHead(absl::string_view parameter);

}  // namespace tost::models

#endif  // TOST_MODELS_IMAGE_CLASSIFIER_H_
