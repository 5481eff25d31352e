#include "models/variants.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tost::models {
namespace {

struct Size {
  const char* name;  // as the TSSA and GPT-2 families call it
  const char* gpt2_name;
  int layers, heads, width;
  int64_t context, vocabulary;
};

// Official configurations (tost_lang/config, nanoGPT config); vocabulary 50257 padded to a multiple
// of 64. The character model's vocabulary is that of Tiny Shakespeare. "mini" is ours: what two CPU
// cores train on ten megabytes in half an hour.
constexpr Size kSizes[] = {
    {"base", "gpt2", 12, 12, 768, 1024, 50304},
    {"medium", "gpt2_medium", 24, 16, 1024, 1024, 50304},
    {"large", "gpt2_large", 36, 20, 1280, 1024, 50304},
    {"xl", "gpt2_xl", 48, 25, 1600, 1024, 50304},
    {"mini", "gpt2_mini", 4, 4, 192, 256, 50304},
    {"char", "gpt2_char", 6, 6, 384, 256, 65},
};

constexpr float kLayerScale = 1e-5f;

struct Variant {
  std::string name;
  LanguageConfig config;
};

std::vector<Variant> Variants() {
  std::vector<Variant> variants;
  for (const Size& size : kSizes) {
    const LanguageConfig tost{.mixer = Mixer::kTssa,
                              .layers = size.layers,
                              .heads = size.heads,
                              .width = size.width,
                              .context = size.context,
                              .vocabulary = size.vocabulary,
                              .bias = false,
                              .layer_scale = kLayerScale};
    LanguageConfig gpt2 = tost;
    gpt2.mixer = Mixer::kAttention;
    LanguageConfig plain_gpt2 = gpt2;
    plain_gpt2.layer_scale = std::nullopt;
    variants.push_back({absl::StrCat("tost_", size.name), tost});
    variants.push_back({size.gpt2_name, plain_gpt2});
    variants.push_back({absl::StrCat(size.gpt2_name, "_layer_scale"), gpt2});
  }
  return variants;
}

struct VisionFamily {
  const char* name;
  VisionMixer mixer;
  bool patch_8;  // released with patches of 8 as well
};

constexpr VisionFamily kVisionFamilies[] = {{"tost", VisionMixer::kTssa, true},
                                            {"xcit", VisionMixer::kCrossCovariance, false},
                                            {"vit", VisionMixer::kAttention, false}};

struct VisionSize {
  const char* name;
  int width, depth, heads;
};

// Official configurations (tost_vision/tost.py, xcit.py, vit.py).
constexpr VisionSize kVisionSizes[] = {
    {"tiny_12", 192, 12, 4},  {"tiny_24", 192, 24, 4},   {"small_12", 384, 12, 8},
    {"small_24", 384, 24, 8}, {"medium_24", 512, 24, 8}, {"large_24", 768, 24, 16},
};

struct NamedImageModel {
  std::string name;
  ImageClassifierConfig config;
};

struct Ablation {
  const char* suffix;
  FeedForward feed_forward;
  bool normalized_memberships;
};

// The paper's ablation of ToST: the feed-forward part, and the normalisation of TSSA.
constexpr Ablation kAblations[] = {{"", FeedForward::kMlp, true},
                                   {"_ista", FeedForward::kIsta, true},
                                   {"_unnormalized", FeedForward::kMlp, false},
                                   {"_ista_unnormalized", FeedForward::kIsta, false}};

// The released model on which the paper tried it.
constexpr absl::string_view kAblated = "tost_cab_small_12_p16";

void AddWithAblations(const std::string& name, VisionConfig config,
                      std::vector<NamedImageModel>& variants) {
  for (const Ablation& ablation : kAblations) {
    config.feed_forward = ablation.feed_forward;
    config.normalized_memberships = ablation.normalized_memberships;
    variants.push_back({absl::StrCat(name, ablation.suffix), config});
  }
}

void AddReleased(const VisionFamily& family, std::vector<NamedImageModel>& variants) {
  for (const VisionSize& size : kVisionSizes) {
    VisionConfig config{.mixer = family.mixer,
                        .width = size.width,
                        .depth = size.depth,
                        .heads = size.heads,
                        // The branches of deep models start almost closed.
                        .layer_scale = size.depth > 12 ? 1e-5f : 1.0f};
    for (const int patch : {16, 8}) {
      if (patch == 8 && !family.patch_8) continue;
      config.patch = patch;
      const std::string name = absl::StrCat(family.name, "_cab_", size.name, "_p", patch);
      if (name == kAblated) {
        AddWithAblations(name, config, variants);
      } else {
        variants.push_back({name, config});
      }
    }
  }
}

// Patches of the models for small pictures, 32 pixels wide and of 10 classes.
constexpr int kSmallPatches[] = {4, 8};

void AddSmall(const VisionFamily& family, std::vector<NamedImageModel>& variants) {
  for (const int patch : kSmallPatches) {
    const VisionConfig config{.mixer = family.mixer,
                              .image_size = 32,
                              .patch = patch,
                              .width = 128,
                              .depth = 6,
                              .heads = 4,
                              .classes = 10};
    const std::string name = absl::StrCat(family.name, "_small_pictures_p", patch);
    if (family.mixer == VisionMixer::kTssa) {
      AddWithAblations(name, config, variants);
    } else {
      variants.push_back({name, config});
    }
  }
}

// Official configurations (model/crate.py).
constexpr VisionSize kCrateSizes[] = {
    {"tiny", 384, 12, 6}, {"small", 576, 12, 12}, {"base", 768, 12, 12}, {"large", 1024, 24, 16}};

void AddCrate(std::vector<NamedImageModel>& variants) {
  for (const VisionSize& size : kCrateSizes) {
    const CrateConfig config{.width = size.width, .depth = size.depth, .heads = size.heads};
    variants.push_back({absl::StrCat("crate_", size.name), config});
  }
  for (const int patch : kSmallPatches) {
    const CrateConfig config{
        .image_size = 32, .patch = patch, .width = 128, .depth = 6, .heads = 4, .classes = 10};
    variants.push_back({absl::StrCat("crate_small_pictures_p", patch), config});
  }
}

std::vector<NamedImageModel> ImageVariants() {
  std::vector<NamedImageModel> variants;
  for (const VisionFamily& family : kVisionFamilies) {
    AddReleased(family, variants);
    AddSmall(family, variants);
  }
  AddCrate(variants);
  return variants;
}

}  // namespace

absl::StatusOr<LanguageConfig> LanguageVariant(absl::string_view name) {
  for (const Variant& variant : Variants()) {
    if (variant.name == name) return variant.config;
  }
  return absl::NotFoundError(absl::StrCat(
      "unknown model ", name, "; known models: ", absl::StrJoin(LanguageVariantNames(), ", ")));
}

std::vector<std::string> LanguageVariantNames() {
  std::vector<std::string> names;
  for (const Variant& variant : Variants()) names.push_back(variant.name);
  return names;
}

absl::StatusOr<ImageClassifierConfig> ImageVariant(absl::string_view name) {
  for (const NamedImageModel& variant : ImageVariants()) {
    if (variant.name == name) return variant.config;
  }
  return absl::NotFoundError(absl::StrCat(
      "unknown model ", name, "; known models: ", absl::StrJoin(ImageVariantNames(), ", ")));
}

std::vector<std::string> ImageVariantNames() {
  std::vector<std::string> names;
  for (const NamedImageModel& variant : ImageVariants()) names.push_back(variant.name);
  return names;
}

}  // namespace tost::models
