#include "models/image_classifier.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"

namespace tost::models {
namespace {

std::variant<VisionModel, CrateModel> MakeModel(ParameterScope scope,
                                                const ImageClassifierConfig& config) {
  if (const auto* crate = std::get_if<CrateConfig>(&config)) return CrateModel(scope, *crate);
  return VisionModel(scope, std::get<VisionConfig>(config));
}

// The number between `prefix` and the next dot of a name, or −1.
int NumberAfter(absl::string_view name, absl::string_view prefix) {
  int number = -1;
  if (!absl::ConsumePrefix(&name, prefix)) return -1;
  return absl::SimpleAtoi(name.substr(0, name.find('.')), &number) ? number : -1;
}

int BlocksOf(const ImageClassifierConfig& config) {
  return std::visit([](const auto& c) { return c.depth; }, config);
}

bool IsFirst(absl::string_view name) {
  for (const char* prefix : {"cls_token", "pos_", "patch_embed.", "to_patch_embedding."}) {
    if (absl::StartsWith(name, prefix)) return true;
  }
  return false;
}

bool IsLast(absl::string_view name) {
  return IsHead(name) || absl::StartsWith(name, "norm.") || absl::StartsWith(name, "mlp_head.0.");
}

}  // namespace

absl::Status Validate(const ImageClassifierConfig& config) {
  return std::visit([](const auto& c) { return c.Validate(); }, config);
}

int64_t classes(const ImageClassifierConfig& config) {
  return std::visit([](const auto& c) { return c.classes; }, config);
}

int64_t image_size(const ImageClassifierConfig& config) {
  return std::visit([](const auto& c) { return c.image_size; }, config);
}

ImageClassifierConfig WithClasses(ImageClassifierConfig config, int64_t classes) {
  std::visit([&](auto& c) { c.classes = classes; }, config);
  return config;
}

ImageClassifierConfig WithImageSize(ImageClassifierConfig config, int64_t pixels) {
  std::visit([&](auto& c) { c.image_size = pixels; }, config);
  return config;
}

ImageClassifier::ImageClassifier(ParameterScope scope, const ImageClassifierConfig& config)
    : config_(config), device_(scope.device()), model_(MakeModel(scope, config)) {}

Tensor ImageClassifier::Features(const Tensor& images, Pass& pass) const {
  return std::visit([&](const auto& model) { return model.Features(images, pass); }, model_);
}

Tensor ImageClassifier::Head(const Tensor& features) const {
  return std::visit([&](const auto& model) { return model.Head(features); }, model_);
}

int DepthOf(const ImageClassifierConfig& config) {
  const auto* vision = std::get_if<VisionConfig>(&config);
  return BlocksOf(config) + (vision == nullptr ? 0 : vision->class_blocks);
}

int LayerOf(const ImageClassifierConfig& config, absl::string_view parameter) {
  if (IsFirst(parameter)) return 0;
  if (IsLast(parameter)) return DepthOf(config) + 1;
  if (const int block = NumberAfter(parameter, "cls_attn_blocks."); block >= 0) {
    return BlocksOf(config) + block + 1;
  }
  const int block =
      std::max(NumberAfter(parameter, "blocks."), NumberAfter(parameter, "transformer.layers."));
  TOST_CHECK(block >= 0) << "no parameter of an image classifier: " << parameter;
  return block + 1;
}

bool IsHead(absl::string_view parameter) {
  return absl::StartsWith(parameter, "head.") || absl::StartsWith(parameter, "mlp_head.1.");
}

}  // namespace tost::models
