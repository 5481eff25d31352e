// The named models of the reference: name → configuration.
#ifndef TOST_MODELS_VARIANTS_H_
#define TOST_MODELS_VARIANTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "models/image_classifier.h"
#include "models/language_model.h"

namespace tost::models {

// tost_base, tost_medium, tost_large, tost_xl: the official sizes, no biases, LayerScale 1e-5.
// gpt2, gpt2_medium, gpt2_large, gpt2_xl: plain GPT-2 as in nanoGPT's training recipe, no biases.
// gpt2_layer_scale, …: the softmax baseline of the official TSSA-capable file, with LayerScale.
// tost_mini, gpt2_mini: 4 layers, 4 heads, 192 wide, context 256, GPT-2's vocabulary; for a CPU.
// tost_char, gpt2_char: 6 layers, 6 heads, 384 wide, context 256 (the official Shakespeare recipe).
// NotFound, naming the known ones, for any other.
absl::StatusOr<LanguageConfig> LanguageVariant(absl::string_view name);

std::vector<std::string> LanguageVariantNames();

// tost_cab_tiny_12_p16 … tost_cab_large_24_p8, xcit_cab_* and vit_cab_*: the official sizes and
// patches for 224 x 224 pictures and 1000 classes, with all channels, heads and initial γ as their
// names there (tost_cab_medium_12_* does not exist). tost_small_pictures_p4, …_p8, and xcit_ and
// vit_ and crate_ likewise: 6 layers, 4 heads, 128 wide, for 32 x 32 pictures of 10 classes; what
// two CPU cores train on CIFAR-10. crate_tiny, crate_small, crate_base, crate_large: the published
// sizes of CRATE, for 224 x 224 pictures with patches of 16. The paper's ablation, of
// tost_cab_small_12_p16 and tost_small_pictures_*: …_ista with CRATE's sparse coding in place of
// the MLP, …_unnormalized without the normalisation of TSSA's channels, …_ista_unnormalized.
// NotFound for any other.
absl::StatusOr<ImageClassifierConfig> ImageVariant(absl::string_view name);

std::vector<std::string> ImageVariantNames();

}  // namespace tost::models

#endif  // TOST_MODELS_VARIANTS_H_
