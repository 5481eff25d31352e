// From a run's settings to what they mean: architecture, micro-steps, schedule. Pure functions
// whose errors name the option and what would be right.
#ifndef TOST_TRAINERS_LANGUAGE_SETTINGS_H_
#define TOST_TRAINERS_LANGUAGE_SETTINGS_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "data/character_vocabulary.h"
#include "models/language_model.h"
#include "trainers/schedule.h"
#include "trainers/train_language.h"

namespace tost::train {

// The vocabulary.json beside the token files, or nothing when the data are bare ids.
absl::StatusOr<std::optional<data::CharacterVocabulary>> VocabularyOf(const std::string& data);

// The named model with the options' changes, sized for the data's vocabulary.
absl::StatusOr<models::LanguageConfig> ConfigOf(
    const LanguageTrainingOptions& options,
    const std::optional<data::CharacterVocabulary>& vocabulary);

// The architecture belongs to the checkpoint; a setting that says otherwise is refused by name.
absl::Status RequireSameModel(const models::LanguageConfig& asked,
                              const models::LanguageConfig& saved, const std::string& checkpoint);

// global_batch / micro_batch; an error with the nearest valid values when that is no whole number.
absl::StatusOr<int> MicroStepsOf(const LanguageTrainingOptions& options);

absl::StatusOr<LanguageSchedule> ScheduleOf(const LanguageTrainingOptions& options);

}  // namespace tost::train

#endif  // TOST_TRAINERS_LANGUAGE_SETTINGS_H_
