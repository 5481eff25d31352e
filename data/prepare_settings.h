// What the options of PrepareText come to: defaults that depend on each other, and limits.
#ifndef TOST_DATA_PREPARE_SETTINGS_H_
#define TOST_DATA_PREPARE_SETTINGS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/corpus.h"
#include "data/prepare_text.h"
#include "data/token_file.h"

namespace tost::data {

struct PrepareSettings {
  bool characters = false;  // and not byte pairs
  bool tail = false;        // and not documents
  double fraction = 0;      // for validation
  TokenLayout layout = TokenLayout::kTost;

  // Characters must be known before they can be encoded, and a tail before it can be cut.
  int readings() const { return characters || tail ? 2 : 1; }
};

// Errors name the option.
absl::StatusOr<PrepareSettings> ResolveSettings(const PrepareTextOptions& options);

// A guess from the sizes of the files. `vocabulary` decides the width of ids, 0: not known yet.
PrepareEstimate Estimate(const Corpus& corpus, const PrepareSettings& settings, int64_t vocabulary);

// An error when the file system that holds `folder` has no room for the estimated output.
absl::Status CheckRoom(const PrepareEstimate& estimate, const std::string& folder);

}  // namespace tost::data

#endif  // TOST_DATA_PREPARE_SETTINGS_H_
