// From the names and shapes of a file's tensors to one of our image classifiers.
//
// Read are the official names of ToST's vision models and of its ViT and XCiT baselines
// ("blocks.3.attn.qkv.weight"), and of CRATE ("transformer.layers.3.0.fn.qkv.weight"), with or
// without a wrapper's prefix.
#ifndef TOST_TRAINERS_VISION_LAYOUT_H_
#define TOST_TRAINERS_VISION_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/image_classifier.h"
#include "trainers/safetensors_header.h"

namespace tost::train {

// What options and a description beside the weights say of the architecture.
struct VisionStatements {
  int heads = 0;           // --heads; 0: nothing
  int64_t image_size = 0;  // --image_size; 0: nothing
  std::optional<models::ImageClassifierConfig> config;
  std::string config_source;  // of `config`, for errors
};

struct VisionLayout {
  models::ImageClassifierConfig config;
  std::string prefix;                  // that a wrapper put before every name
  std::map<std::string, size_t> used;  // from our parameters' and states' names to entries
  std::vector<size_t> counters;        // num_batches_tracked, which nothing here reads
};

// Whether the names are those of an image classifier, complete or not, as against a language model.
bool LooksLikeImageClassifier(std::span<const TensorEntry> entries);

// The layout of `entries`. Names and shapes give everything but: the heads of ViT and CRATE; the
// size of the pictures, except CRATE's (224 when nobody says); what leaves no trace in the weights,
// such as the normalisation of TSSA, for which the description, or else the official models' value,
// stands. One line each, beginning with `source`: no image classifier at all; the list of all
// missing, unexpected and wrongly shaped tensors; a statement that contradicts the tensors; heads
// that nobody states (then the line asks for --heads).
absl::StatusOr<VisionLayout> VisionLayoutOf(std::span<const TensorEntry> entries,
                                            const VisionStatements& stated,
                                            const std::string& source);

}  // namespace tost::train

#endif  // TOST_TRAINERS_VISION_LAYOUT_H_
