// `tost export` of a language model: official names, or Hugging Face's GPT-2.
#ifndef TOST_TRAINERS_EXPORT_LANGUAGE_H_
#define TOST_TRAINERS_EXPORT_LANGUAGE_H_

#include "absl/status/status.h"
#include "trainers/export_files.h"

namespace tost::train {

// Writes the export and prints what it wrote. With `check` the folder is imported again, in memory,
// and the logits of the two models on random tokens are compared (CompareLogits).
absl::Status ExportLanguage(const ExportOptions& options);

}  // namespace tost::train

#endif  // TOST_TRAINERS_EXPORT_LANGUAGE_H_
