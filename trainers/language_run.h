// A trained language model as it lies in a run folder: weights, architecture, tokenizer.
#ifndef TOST_TRAINERS_LANGUAGE_RUN_H_
#define TOST_TRAINERS_LANGUAGE_RUN_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "data/token_dataset.h"
#include "data/tokenizer.h"
#include "models/language_model.h"
#include "trainers/checkpoint.h"

namespace tost::train {

// The architecture as checkpoints store it:
//   {"mixer": "tssa", "layers": 6, "heads": 6, "width": 384, "context": 256, …}
std::string ToJson(const models::LanguageConfig& config);
absl::StatusOr<models::LanguageConfig> LanguageConfigFromJson(absl::string_view json,
                                                              absl::string_view source);

struct LanguageRun {
  std::string checkpoint;  // path of the file the weights come from
  CheckpointState state;
  models::LanguageConfig config;
  std::unique_ptr<ParameterSet> params;
  std::unique_ptr<models::LanguageModel> model;
  std::optional<data::Tokenizer> tokenizer;  // none: the data held bare token ids
};

// `path` is a run folder (its newest checkpoint is taken) or a checkpoint file.
absl::StatusOr<LanguageRun> LoadLanguageRun(const std::string& path, DType compute_dtype,
                                            Device device = Device::Cpu());

// The token files of a split. Errors: those of TokenDataset::Open for ids that the model does not
// know, and files made by another tokenizer than `tokenizer`, where both are known.
absl::StatusOr<data::TokenDataset> OpenTokens(const std::string& data, data::Split split,
                                              const models::LanguageConfig& config,
                                              const std::optional<data::Tokenizer>& tokenizer);

// The architecture alone, and what else the checkpoint says of itself; reads no weights.
struct LanguageRunHeader {
  std::string checkpoint;
  CheckpointState state;
  models::LanguageConfig config;
};
absl::StatusOr<LanguageRunHeader> ReadLanguageRunHeader(const std::string& path);

}  // namespace tost::train

#endif  // TOST_TRAINERS_LANGUAGE_RUN_H_
