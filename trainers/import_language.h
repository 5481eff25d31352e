// `tost import` of a language model: one from elsewhere becomes a run that can be evaluated,
// sampled and trained on.
#ifndef TOST_TRAINERS_IMPORT_LANGUAGE_H_
#define TOST_TRAINERS_IMPORT_LANGUAGE_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/tokenizer.h"
#include "models/language_model.h"
#include "trainers/import_source.h"

namespace tost::train {

struct ImportedLanguage {
  models::LanguageConfig config;
  std::unique_ptr<ParameterSet> params;
  std::unique_ptr<models::LanguageModel> model;
  std::optional<data::Tokenizer> tokenizer;
  // What was found and decided, a line each: "source  model.safetensors (safetensors)".
  std::vector<std::string> report;
};

// Reads the model into memory; `output` and `overwrite` play no part. Besides the model one tensor,
// or one storage of a PyTorch file, is in memory at a time.
absl::StatusOr<ImportedLanguage> ReadLanguageModel(const ImportOptions& options);

// ReadLanguageModel, the run folder, and the report on standard output.
absl::Status ImportLanguage(const ImportOptions& options);

}  // namespace tost::train

#endif  // TOST_TRAINERS_IMPORT_LANGUAGE_H_
