#include "trainers/evaluate_task.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "data/atomic_file.h"
#include "data/text_tokens.h"
#include "data/zero_shot_sets.h"
#include "trainers/evaluation_report.h"
#include "trainers/evaluation_task.h"
#include "trainers/interrupt.h"
#include "trainers/language_run.h"
#include "trainers/progress.h"
#include "trainers/zero_shot.h"

namespace tost::train {
namespace {

using data::ZeroShotSet;

// The official estimate: 1000 batches of 16 windows.
constexpr int64_t kOfficialBatches = 1000;
constexpr int64_t kOfficialBatchWindows = 16;

// A run with all that its evaluation needs.
struct Subject {
  LanguageRun run;
  ScoringOptions scoring;

  const data::Tokenizer& tokenizer() const { return *run.tokenizer; }
  const models::LanguageModel& model() const { return *run.model; }
};

absl::StatusOr<Subject> LoadSubject(const LanguageEvaluationOptions& options) {
  Subject subject;
  TOST_ASSIGN_OR_RETURN(const DType dtype, ComputeDTypeNamed(options.compute_dtype));
  TOST_ASSIGN_OR_RETURN(subject.run, LoadLanguageRun(options.run, dtype, options.device));
  const LanguageRun& run = subject.run;
  if (!run.tokenizer.has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat(run.checkpoint, ": the run has no tokenizer, as it was trained on bare token ",
                     "ids; --task needs one to read text"));
  }
  const int64_t ids = run.tokenizer->vocabulary();
  if (ids > run.config.vocabulary) {
    return absl::FailedPreconditionError(absl::StrCat(run.checkpoint, ": its tokenizer has ", ids,
                                                      " ids, but the model knows ",
                                                      run.config.vocabulary));
  }
  subject.scoring = {.batch = options.batch, .compute_dtype = dtype};
  return subject;
}

void AddAccuracy(const Accuracy& accuracy, EvaluationReport& report) {
  report.Add("examples", accuracy.examples);
  report.Add("truncated", accuracy.truncated);
  report.Add("accuracy", accuracy.Share());
  report.Add("accuracy_standard_error", accuracy.StandardError());
}

absl::Status AddCloze(const Subject& subject, const data::SetFile& file, bool official,
                      EvaluationReport& report) {
  TOST_ASSIGN_OR_RETURN(const std::vector<data::ClozeQuestion> questions,
                        data::ReadClozeQuestions(file.path));
  const ZeroShotSubject asked{subject.model(), subject.tokenizer(), subject.scoring, file.path};
  EvaluationProgress progress(
      "candidates", static_cast<int64_t>(questions.size() * data::ClozeQuestion::kCandidates));
  TOST_ASSIGN_OR_RETURN(const Accuracy accuracy,
                        official ? AnswerClozeOfficially(asked, questions, progress)
                                 : AnswerCloze(asked, questions, progress));
  AddAccuracy(accuracy, report);
  return absl::OkStatus();
}

absl::Status AddLastWords(const Subject& subject, const data::SetFile& file, bool official,
                          EvaluationReport& report) {
  TOST_ASSIGN_OR_RETURN(const std::vector<std::string> passages, data::ReadPassages(file.path));
  const ZeroShotSubject asked{subject.model(), subject.tokenizer(), subject.scoring, file.path};
  EvaluationProgress progress("passages", static_cast<int64_t>(passages.size()));
  if (official) {
    TOST_ASSIGN_OR_RETURN(const Accuracy accuracy, ContinueGreedily(asked, passages, progress));
    AddAccuracy(accuracy, report);
    return absl::OkStatus();
  }
  TOST_ASSIGN_OR_RETURN(const WordPrediction result, PredictLastWords(asked, passages, progress));
  AddAccuracy(result.accuracy, report);
  report.Add("target_tokens", result.tokens);
  report.Add("loss_per_token", result.loss / static_cast<double>(result.tokens));
  report.Add("perplexity_per_word",
             std::exp(result.loss / static_cast<double>(result.accuracy.examples)));
  return absl::OkStatus();
}

void AddLoss(const TextLoss& loss, bool by_position, EvaluationReport& report) {
  report.Add("tokens_scored", loss.tokens);
  report.Add("loss_per_token", loss.Mean());
  report.Add("perplexity", std::exp(loss.Mean()));
  if (by_position) report.AddPositions(loss.by_position);
}

// The documents of a set as the official preparation scripts see them.
absl::StatusOr<std::vector<std::string>> OfficialDocuments(ZeroShotSet set,
                                                           const std::string& path) {
  if (set == ZeroShotSet::kLambada) return data::ReadPassages(path);
  TOST_ASSIGN_OR_RETURN(const std::string text, data::ReadFile(path));
  std::vector<std::string> documents = data::Lines(text);
  if (set == ZeroShotSet::kPennTreebank) return documents;
  // The scripts' source of WikiText keeps the ends of lines and empties blank ones.
  for (std::string& line : documents) {
    const bool blank = absl::StripAsciiWhitespace(line).empty();
    line = blank ? "" : absl::StrCat(line, "\n");
  }
  return documents;
}

// Each document and end-of-text; then the mean over random windows.
absl::Status AddOfficialLoss(const Subject& subject, ZeroShotSet set, const data::SetFile& file,
                             const LanguageEvaluationOptions& options, EvaluationReport& report) {
  TOST_ASSIGN_OR_RETURN(const std::vector<std::string> documents,
                        OfficialDocuments(set, file.path));
  std::vector<int32_t> tokens;
  for (const std::string& document : documents) {
    TOST_RETURN_IF_ERROR(subject.tokenizer().Encode(document, file.path, tokens));
    tokens.push_back(*subject.tokenizer().end_of_text());
  }
  const auto count = static_cast<int64_t>(tokens.size());
  if (count <= subject.run.config.context) {
    return absl::InvalidArgumentError(absl::StrCat(
        file.path, ": its ", count, " tokens are fewer than a window of the model's context, ",
        subject.run.config.context, ", and the next token"));
  }
  const int64_t batches =
      options.evaluation_batches > 0 ? options.evaluation_batches : kOfficialBatches;
  const int64_t windows = batches * kOfficialBatchWindows;
  EvaluationProgress progress("windows", windows);
  TOST_ASSIGN_OR_RETURN(
      const TextLoss loss,
      RandomWindowLoss(subject.model(), tokens, windows, options.seed, subject.scoring, progress));
  report.Add("stream_tokens", count);
  report.Add("windows", windows);
  report.Add("seed", static_cast<int64_t>(options.seed));
  AddLoss(loss, options.by_position, report);
  return absl::OkStatus();
}

absl::Status Invalid(absl::string_view option, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(option, ": ", why));
}

absl::StatusOr<int64_t> StrideOf(const LanguageEvaluationOptions& options, int64_t context) {
  const int64_t stride = options.stride != 0 ? options.stride : std::max<int64_t>(context / 2, 1);
  if (stride >= 1 && stride <= context) return stride;
  return absl::InvalidArgumentError(
      absl::StrCat("--stride ", stride, ": it must be from 1 to the model's context, ", context));
}

absl::Status AddTextLoss(const Subject& subject, const std::string& path,
                         const LanguageEvaluationOptions& options, EvaluationReport& report) {
  const int64_t context = subject.run.config.context;
  const bool streaming = options.long_text == "streaming";
  if (streaming && subject.run.config.mixer != models::Mixer::kTssa) {
    return Invalid("--long_text streaming",
                   "softmax attention has no state that could be carried past its context: its "
                   "cache grows with every token; use --long_text windows");
  }
  TOST_ASSIGN_OR_RETURN(const int64_t stride, StrideOf(options, context));
  TOST_ASSIGN_OR_RETURN(data::TextTokens text, data::TextTokens::Open(path, subject.tokenizer()));
  std::error_code unknown;
  EvaluationProgress progress("bytes",
                              static_cast<int64_t>(std::filesystem::file_size(path, unknown)));
  const absl::StatusOr<TextLoss> result =
      streaming ? StreamingLoss(subject.model(), text, subject.scoring, progress)
                : SlidingWindowLoss(subject.model(), text, stride, subject.scoring, progress);
  if (!result.ok()) {
    const bool named = absl::StrContains(result.status().message(), path);
    if (named || absl::IsCancelled(result.status())) return result.status();
    return Invalid(path, result.status().message());
  }
  report.Add("data_digest", text.Digest());
  report.Add("context", context);
  report.Add("long_text", options.long_text);
  if (!streaming) report.Add("stride", stride);
  if (streaming) {
    report.Add("positions", absl::StrCat("beyond position ", context,
                                         " wpe and denom_bias are held at their last row"));
  }
  report.Add("bytes", text.bytes());
  report.Add("words", text.words());
  AddLoss(*result, options.by_position, report);
  report.Add("bits_per_byte", result->sum / std::log(2.0) / static_cast<double>(text.bytes()));
  report.Add("word_perplexity", std::exp(result->sum / static_cast<double>(text.words())));
  return absl::OkStatus();
}

absl::Status AddFigures(const LanguageEvaluationOptions& options, const EvaluationTask& task,
                        const Subject& subject, const data::SetFile& file,
                        EvaluationReport& report) {
  const bool official = options.protocol == "official";
  if (task.running_text() && !official) return AddTextLoss(subject, file.path, options, report);
  report.Add("data_digest", file.digest);
  if (official && !subject.tokenizer().end_of_text().has_value()) {
    return Invalid("--protocol official",
                   absl::StrCat("it parts documents by end-of-text, which this run's tokenizer (",
                                subject.tokenizer().name(), ") has not; use --protocol standard"));
  }
  if (task.cloze()) return AddCloze(subject, file, official, report);
  if (task.set == ZeroShotSet::kLambada) {
    TOST_RETURN_IF_ERROR(AddLastWords(subject, file, official, report));
  }
  return official ? AddOfficialLoss(subject, *task.set, file, options, report) : absl::OkStatus();
}

}  // namespace

absl::Status EvaluateTask(const LanguageEvaluationOptions& options) {
  TOST_ASSIGN_OR_RETURN(const EvaluationTask task, EvaluationTaskNamed(options.task));
  TOST_RETURN_IF_ERROR(ValidateTask(options, task));
  TOST_ASSIGN_OR_RETURN(const data::SetFile file, FindTaskData(options, task));
  TOST_ASSIGN_OR_RETURN(const Subject subject, LoadSubject(options));
  CatchInterrupts();
  EvaluationReport report;
  report.Add("task", options.task);
  report.Add("protocol", ProtocolOf(options, task));
  report.Add("run", options.run);
  report.Add("checkpoint", subject.run.checkpoint);
  report.Add("update", subject.run.state.update);
  report.Add("tokenizer", subject.tokenizer().name());
  report.Add("tokenizer_digest", subject.tokenizer().digest());
  report.Add("compute_dtype", options.compute_dtype);
  report.Add("tost_version", options.version);
  report.Add("data", file.path);
  report.Add("split", file.split);
  TOST_RETURN_IF_ERROR(AddFigures(options, task, subject, file, report));
  std::fputs(report.Table().c_str(), stdout);
  return report.WriteJson(options.json);
}

}  // namespace tost::train
