// What files beside the weights say of a language model's architecture: config.json of Hugging Face
// or of our own exports, and nanoGPT's model_args.
#ifndef TOST_TRAINERS_ARCHITECTURE_FILES_H_
#define TOST_TRAINERS_ARCHITECTURE_FILES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "models/language_model.h"
#include "trainers/language_layout.h"
#include "trainers/pickle.h"

namespace tost::train {

struct StatedArchitecture {
  std::vector<Stated> stated;
  std::optional<models::GeluForm> gelu;
};

// A config.json: Hugging Face's of a GPT-2 ("model_type": "gpt2"), or ours (ToJson of a
// LanguageConfig). One line for any other, and for a setting that our models do not have: another
// activation, another LayerNorm epsilon, another scale of the attention.
absl::StatusOr<StatedArchitecture> ParseArchitecture(absl::string_view json,
                                                     const std::string& source);

// The "model_args" that nanoGPT and ToST save beside the weights; nothing when there are none.
StatedArchitecture ModelArgsOf(const PickleValue& checkpoint);

// The config.json with which transformers' GPT2LMHeadModel builds the model. CHECKs that its mixer
// is attention. `dtype` is "float32" or "bfloat16".
std::string HuggingFaceConfig(const models::LanguageConfig& config, absl::string_view dtype,
                              std::optional<int32_t> end_of_text);

}  // namespace tost::train

#endif  // TOST_TRAINERS_ARCHITECTURE_FILES_H_
