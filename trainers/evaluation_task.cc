#include "trainers/evaluation_task.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace tost::train {
namespace {

using data::ZeroShotSet;

constexpr char kTextPrefix[] = "text:";

absl::Status Invalid(absl::string_view option, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(option, ": ", why));
}

absl::Status NotOneOf(absl::string_view option, absl::string_view known, const std::string& value) {
  return absl::InvalidArgumentError(absl::StrCat(option, " is ", known, ", not '", value, "'"));
}

}  // namespace

absl::StatusOr<EvaluationTask> EvaluationTaskNamed(absl::string_view name) {
  std::string known;
  for (ZeroShotSet set :
       {ZeroShotSet::kLambada, ZeroShotSet::kWikiText2, ZeroShotSet::kPennTreebank,
        ZeroShotSet::kClozeCommonNouns, ZeroShotSet::kClozeEntities}) {
    if (name == data::Name(set)) return EvaluationTask{.set = set};
    absl::StrAppend(&known, data::Name(set), ", ");
  }
  absl::string_view file = name;
  if (absl::ConsumePrefix(&file, kTextPrefix) && !file.empty()) {
    return EvaluationTask{.text = std::string(file)};
  }
  return NotOneOf("--task", absl::StrCat("one of ", known, "text:FILE"), std::string(name));
}

absl::Status ValidateTask(const LanguageEvaluationOptions& options, const EvaluationTask& task) {
  const bool official = options.protocol == "official";
  const bool streaming = options.long_text == "streaming";
  if (!official && options.protocol != "standard") {
    return NotOneOf("--protocol", "standard or official", options.protocol);
  }
  if (!streaming && options.long_text != "windows") {
    return NotOneOf("--long_text", "windows or streaming", options.long_text);
  }
  if (official && !task.set.has_value()) {
    return Invalid("--protocol official", "the official scripts know the named sets only");
  }
  if (!task.set.has_value() && !options.data.empty()) {
    return Invalid("--data", "--task text:FILE names the file itself");
  }
  if (streaming && (official || !task.running_text())) {
    return Invalid("--long_text streaming", "it reads running text by the standard protocol only");
  }
  if (options.stride != 0 && (official || streaming || !task.running_text())) {
    return Invalid("--stride", "it is for the sliding windows of running text");
  }
  if (options.by_position && (task.cloze() || (!official && !task.running_text()))) {
    return Invalid("--by_position", "it is for losses of running text");
  }
  if (options.batch < 1) return Invalid("--batch", "it must be at least 1");
  if (options.evaluation_batches < 0) {
    return Invalid("--evaluation_batches", "it must not be negative");
  }
  return absl::OkStatus();
}

std::string ProtocolOf(const LanguageEvaluationOptions& options, const EvaluationTask& task) {
  const bool official = options.protocol == "official";
  if (task.cloze()) {
    return official ? "official: of ten candidates the one with the largest sum of log p over all "
                      "tokens of the text between two end-of-texts"
                    : "standard: of ten candidates the one with the largest sum of log p over the "
                      "question from its blank on, given all before";
  }
  if (official) {
    const char* loss =
        "mean loss over random windows of the documents, each followed by end-of-text";
    if (task.running_text()) return absl::StrCat("official: ", loss);
    return absl::StrCat("official: the last word, lower-cased, occurs in ten greedy tokens after ",
                        "a newline and the rest of the passage; ", loss);
  }
  if (!task.running_text()) {
    return "standard: every token of the last word is the most likely one, given the true ones "
           "before; perplexity of these words";
  }
  return options.long_text == "streaming"
             ? "standard: every token of the file but the first, given all tokens before it"
             : "standard: every token of the file but the first, once, in sliding windows";
}

absl::StatusOr<data::SetFile> FindTaskData(const LanguageEvaluationOptions& options,
                                           const EvaluationTask& task) {
  if (!task.set.has_value()) return data::SetFile{.path = task.text, .split = "whole file"};
  const bool validation = task.cloze() && options.protocol == "official";
  const std::string split = !options.split.empty() ? options.split : validation ? "val" : "test";
  return data::FindSetFile(*task.set, options.data, split);
}

}  // namespace tost::train
