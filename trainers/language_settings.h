// From a run's settings to what they mean: architecture, micro-steps, schedule. Pure functions
// whose errors name the option and what would be right.
#ifndef TOST_TRAINERS_LANGUAGE_SETTINGS_H_
#define TOST_TRAINERS_LANGUAGE_SETTINGS_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "data/tokenizer.h"
#include "models/language_model.h"
#include "trainers/language_run.h"
#include "trainers/schedule.h"
#include "trainers/train_language.h"

namespace tost::train {

// The tokenizer of the data: vocabulary.json beside the token files, or else the one that
// options.tokenizer names, or nothing when the data are bare ids. Two that differ are an error.
absl::StatusOr<std::optional<data::Tokenizer>> TokenizerOf(const LanguageTrainingOptions& options);

// Rows of the embedding for a tokenizer: its ids, for byte pairs rounded up to a multiple of 64 as
// in the official recipes (50257 → 50304), which matrix products prefer.
int64_t EmbeddingRows(const data::Tokenizer& tokenizer);

// The named model with the options' changes, sized for the tokenizer.
absl::StatusOr<models::LanguageConfig> ConfigOf(const LanguageTrainingOptions& options,
                                                const std::optional<data::Tokenizer>& tokenizer);

// The architecture of a checkpoint to start from; options that say otherwise are refused by name,
// as is a tokenizer that is not the checkpoint's.
absl::StatusOr<models::LanguageConfig> ConfigOfCheckpoint(
    const LanguageTrainingOptions& options, const std::optional<data::Tokenizer>& tokenizer,
    const LanguageRunHeader& header);

absl::StatusOr<WarmupCosine> ScheduleOf(const LanguageTrainingOptions& options);

// Updates of the run: `steps`, and one more where the official loop is followed to the letter.
int64_t UpdatesOf(const LanguageTrainingOptions& options);

// The learning rate of an update, from 1. The official loop counts its updates from 0.
float LearningRateAt(const LanguageTrainingOptions& options, const WarmupCosine& schedule,
                     int64_t update);

}  // namespace tost::train

#endif  // TOST_TRAINERS_LANGUAGE_SETTINGS_H_
