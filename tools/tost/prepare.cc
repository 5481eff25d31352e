// tost prepare text, tost prepare characters
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "autograd/base/errors.h"
#include "autograd/base/log.h"
#include "data/prepare_text.h"
#include "tools/tost/command_line.h"
#include "trainers/interrupt.h"
#include "trainers/progress.h"

namespace tost {
namespace {

using data::PreparedSplit;
using data::PreparedText;
using data::PrepareEstimate;
using data::PrepareObserver;
using data::PrepareProgress;
using data::PrepareTextOptions;
using train::FormatCount;
using train::FormatDuration;
using Clock = std::chrono::steady_clock;

double Megabytes(int64_t bytes) { return static_cast<double>(bytes) / 1e6; }

double SecondsSince(Clock::time_point start) {
  return std::max(1e-6, std::chrono::duration<double>(Clock::now() - start).count());
}

// "1 file", "2,000 files".
std::string Counted(int64_t count, absl::string_view what) {
  return absl::StrCat(FormatCount(count), " ", what, count == 1 ? "" : "s");
}

bool Interrupted() { return train::PendingInterrupt() != 0; }

std::string Format(const PrepareEstimate& estimate, const std::string& output) {
  return absl::StrFormat("%s of %.1f MB; about %s tokens, %.1f MB in %s",
                         Counted(estimate.files, "input file"), Megabytes(estimate.input_bytes),
                         FormatCount(estimate.tokens), Megabytes(estimate.output_bytes), output);
}

// What a person sees of the work.
class Display {
 public:
  void Show(const PrepareProgress& progress) {
    if (progress.reading != reading_) {
      reading_ = progress.reading;
      reading_start_ = Clock::now();
    }
    line_.Update([&] { return Format(progress); }, /*last=*/false);
  }
  void Clear() { line_.Clear(); }
  double seconds() const { return SecondsSince(start_); }

 private:
  std::string Format(const PrepareProgress& progress) const {
    const double done = static_cast<double>(progress.consumed_bytes) /
                        static_cast<double>(std::max<int64_t>(progress.input_bytes, 1));
    const bool counting = progress.reading < progress.readings;
    return absl::StrFormat(
        "%s  %.1f MB  %s  %.1f MB/s  %s left", Counted(progress.documents, "document"),
        Megabytes(progress.text_bytes),
        counting ? "first reading" : absl::StrCat(FormatCount(progress.tokens), " tokens"),
        Megabytes(progress.text_bytes) / SecondsSince(reading_start_),
        FormatDuration(seconds() * (1 - done) / done));
  }

  train::ProgressLine line_;
  Clock::time_point start_ = Clock::now();
  int reading_ = 1;
  Clock::time_point reading_start_ = start_;
};

std::string ShardsOf(const PreparedSplit& split, int64_t shard_tokens) {
  if (shard_tokens == 0) return "1 file";
  const std::string shards = Counted(split.shards, "shard");
  if (split.last_shard_tokens == shard_tokens) return shards;
  return absl::StrCat(shards, "; the last one holds ", FormatCount(split.last_shard_tokens),
                      " tokens (shorter is normal)");
}

std::string Format(const char* name, const PreparedSplit& split, int64_t shard_tokens) {
  const std::string documents =
      split.documents > 0 ? absl::StrCat(" of ", Counted(split.documents, "document")) : "";
  return absl::StrFormat("%-10s %s tokens%s, %.1f MB of text, %.2f bytes per token, %.1f MB in %s",
                         name, FormatCount(split.tokens), documents, Megabytes(split.text_bytes),
                         static_cast<double>(split.text_bytes) / static_cast<double>(split.tokens),
                         Megabytes(split.file_bytes), ShardsOf(split, shard_tokens));
}

void PrintSummary(const PrepareTextOptions& options, const PreparedText& prepared, double seconds) {
  const data::SkippedFiles& skipped = prepared.skipped;
  const double text = Megabytes(prepared.train.text_bytes + prepared.validation.text_bytes);
  const std::string lines[] = {
      Format("training", prepared.train, options.shard_tokens),
      Format("validation", prepared.validation, options.shard_tokens),
      absl::StrFormat(
          "%s, %s empty, %s skipped%s; %.1f s, %.1f MB/s", Counted(prepared.documents, "document"),
          FormatCount(prepared.empty_documents), Counted(skipped.count, "file"),
          skipped.count > 0 ? absl::StrCat(" (", skipped.first, ")") : "", seconds, text / seconds),
      absl::StrFormat("%s: vocabulary of %s (%s)", options.output, FormatCount(prepared.vocabulary),
                      prepared.tokenizer)};
  for (const std::string& line : lines) std::printf("%s\n", line.c_str());
}

absl::Status RunText(const PrepareTextOptions& options) {
  train::CatchInterrupts();
  Display display;
  const PrepareObserver observer{
      .begin = [&](const PrepareEstimate& estimate) { LogInfo(Format(estimate, options.output)); },
      .progress = [&](const PrepareProgress& progress) { display.Show(progress); },
      .stop = &Interrupted};
  const absl::StatusOr<PreparedText> prepared = data::PrepareText(options, observer);
  display.Clear();
  if (prepared.ok()) PrintSummary(options, *prepared, display.seconds());
  return prepared.status();
}

absl::Status RunCharacters(const PrepareTextOptions& options) {
  train::CatchInterrupts();
  TOST_ASSIGN_OR_RETURN(const PreparedText prepared,
                        data::PrepareText(options, {.stop = &Interrupted}));
  std::printf("%s: %s characters for training, %s for validation, vocabulary of %lld\n",
              options.output.c_str(), FormatCount(prepared.train.tokens).c_str(),
              FormatCount(prepared.validation.tokens).c_str(),
              static_cast<long long>(prepared.vocabulary));
  return absl::OkStatus();
}

void AddText(CLI::App& prepare, Commands& commands) {
  Command& command = commands.emplace_back(
      prepare, "text", "Texts, JSON lines and archives of them by byte pairs or characters",
      "tost prepare text --input data/samples/tinyshakespeare.txt --split tail --output "
      "runs/shakespeare_gpt2/data");
  auto options = std::make_shared<PrepareTextOptions>();
  auto& o = *options;
  command.app()
      ->add_option("--input", o.inputs,
                   "Files and folders: .txt, .jsonl, and .gz .xz .zst .bz2 .tar .zip of them")
      ->type_name("PATH ...")
      ->required();
  command.Add("output", o.output, "Folder for the token files; appears when it is complete")
      ->required();
  command.Add("tokenizer", o.tokenizer,
              "gpt2, chars (those of the text), or a folder with encoder.json and vocab.bpe");
  command.Add("json_field", o.json_field, "Field of a JSON line that holds the text");
  command.Add("split", o.split,
              "documents (some go to validation, each ends with <|endoftext|>), tail (the end of "
              "the whole text is for validation), or auto: tail for chars, else documents");
  command.app()
      ->add_option("--validation_fraction", o.validation_fraction,
                   "Share for validation; by default 0.0005 of documents, 0.1 of a tail")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  command.Add("seed", o.seed, "Seed of the draw that sends a document to validation");
  command.Add("layout", o.layout, "tost, or raw: ids only, as nanoGPT's train.bin");
  command.Add("shard_tokens", o.shard_tokens, "Tokens in each file; 0: all in one");
  command.Add("special_tokens", o.special_tokens,
              "Make <|endoftext|> inside a text that token, not plain characters");
  command.Add("overwrite", o.overwrite, "Replace the prepared data that are there");
  command.set_run([options] { return RunText(*options); });
}

void AddCharacters(CLI::App& prepare, Commands& commands) {
  Command& command = commands.emplace_back(
      prepare, "characters", "A text by a vocabulary of its own characters",
      "tost prepare characters data/samples/tinyshakespeare.txt --output runs/shakespeare/data");
  auto options = std::make_shared<PrepareTextOptions>();
  auto& o = *options;
  o.inputs.resize(1);
  o.tokenizer = "chars";
  o.split = "tail";
  command.AddOperand("text", o.inputs[0], "UTF-8 text file")->required();
  command.Add("output", o.output, "Folder for train.bin, val.bin and vocabulary.json")->required();
  command.Add("validation_fraction", o.validation_fraction.emplace(0.1),
              "Share of the characters, from the end, kept for validation");
  command.Add("overwrite", o.overwrite, "Replace files that are there");
  command.set_run([options] { return RunCharacters(*options); });
}

}  // namespace

void AddPrepareCommands(CLI::App& app, Commands& commands) {
  CLI::App* prepare = app.add_subcommand("prepare", "Turn raw data into token files");
  prepare->require_subcommand(1);
  AddText(*prepare, commands);
  AddCharacters(*prepare, commands);
}

}  // namespace tost
