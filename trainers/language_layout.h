// From the names and shapes of a file's tensors to one of our language models.
//
// Read are the official names ("transformer.h.3.attn.c_attn.weight", as ToST and nanoGPT save
// them), with or without "transformer." in front, with or without a wrapper's prefix, and Hugging
// Face's GPT-2, whose linear weights lie transposed: [in, out].
#ifndef TOST_TRAINERS_LANGUAGE_LAYOUT_H_
#define TOST_TRAINERS_LANGUAGE_LAYOUT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "models/language_model.h"
#include "trainers/safetensors_header.h"

namespace tost::train {

// Something that a configuration or an option says of the architecture, truth values as 0 and 1.
struct Stated {
  enum class What { kTssa, kLayerScale, kBias, kLayers, kHeads, kWidth, kContext, kVocabulary };
  What what;
  int64_t value;
  std::string source;  // "config.json, n_head"
};

struct LanguageLayout {
  models::LanguageConfig config;
  bool transposed = false;             // linear weights lie [in, out]
  std::string prefix;                  // that a wrapper put before every name
  std::map<std::string, size_t> used;  // from our parameters' names to the file's entries
  std::optional<size_t> head;          // lm_head.weight, where it is there besides the embedding
  // Entries that are no weights, and why.
  struct Ignored {
    size_t entry;
    const char* why;
  };
  std::vector<Ignored> ignored;
};

// The layout of `entries`. Everything but the heads of GPT-2 follows from names and shapes; what is
// stated must agree with them. One line each, beginning with `source`: no language model at all;
// the list of all missing, unexpected and wrongly shaped tensors; a statement that contradicts the
// tensors or another statement; heads that nobody states (then the line asks for --heads).
absl::StatusOr<LanguageLayout> LanguageLayoutOf(std::span<const TensorEntry> entries,
                                                std::span<const Stated> stated,
                                                const std::string& source);

// Whether a parameter of ours is the weight of a linear layer, which Hugging Face transposes.
bool IsLinearWeight(absl::string_view name);

}  // namespace tost::train

#endif  // TOST_TRAINERS_LANGUAGE_LAYOUT_H_
