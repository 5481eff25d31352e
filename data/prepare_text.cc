#include "data/prepare_text.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "autograd/base/errors.h"
#include "data/atomic_file.h"
#include "data/corpus.h"
#include "data/corpus_batches.h"
#include "data/output_folder.h"
#include "data/prepare_settings.h"
#include "data/text_encoder.h"
#include "data/text_split.h"
#include "data/tokenizer.h"
#include "data/utf8.h"
#include "nlohmann/json.hpp"

namespace tost::data {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kPrepareFile[] = "prepare.json";

// The inputs in a message.
std::string NameOf(const std::vector<std::string>& inputs) {
  const std::string more =
      inputs.size() > 1 ? absl::StrCat(" and ", inputs.size() - 1, " more") : std::string();
  return absl::StrCat(inputs[0], more);
}

absl::Status CheckNotEmpty(const Corpus& corpus, absl::string_view inputs) {
  if (corpus.documents() > 0) return absl::OkStatus();
  const SkippedFiles skipped = corpus.skipped();
  const std::string also =
      skipped.count > 0
          ? absl::StrCat("; ", skipped.count,
                         " hidden or of an unknown kind were skipped, such as ", skipped.first)
          : std::string();
  return absl::InvalidArgumentError(absl::StrCat(
      inputs, " is empty: files read: ", corpus.files(), ", documents of 0 characters: ",
      corpus.empty_documents(), also, "; give a text to train on"));
}

// The characters of a corpus: how many, and each of them once.
class CharacterCount {
 public:
  void Add(const TextPiece& piece) {
    characters_ += FirstCharacters(piece.text, std::numeric_limits<int64_t>::max()).characters;
  }
  // The same, and an error for bytes that are no UTF-8.
  absl::Status AddKinds(const TextPiece& piece) {
    std::u32string codes;
    Utf8Decoder decoder(piece.source, piece.offset);
    TOST_RETURN_IF_ERROR(decoder.Append(piece.text, codes));
    TOST_RETURN_IF_ERROR(decoder.Finish(codes));
    characters_ += static_cast<int64_t>(codes.size());
    for (const char32_t code : codes) {
      if (known_[code]) continue;
      known_[code] = true;
      kinds_.push_back(code);
    }
    return absl::OkStatus();
  }

  int64_t characters() const { return characters_; }
  const std::u32string& kinds() const { return kinds_; }

 private:
  int64_t characters_ = 0;
  std::u32string kinds_;
  std::vector<bool> known_ = std::vector<bool>(kCodePoints);
};

PreparedSplit Summary(const TextEncoder::Side& side) {
  return {.documents = side.documents,
          .text_bytes = side.text_bytes,
          .tokens = side.shards.tokens(),
          .file_bytes = side.shards.bytes(),
          .shards = side.shards.shards(),
          .last_shard_tokens = side.shards.last_shard_tokens()};
}

Json RecordOf(const PreparedSplit& split, bool tail) {
  Json record;
  if (!tail) record["documents"] = split.documents;
  record["text_bytes"] = split.text_bytes;
  record["tokens"] = split.tokens;
  record["file_bytes"] = split.file_bytes;
  record["files"] = split.shards;
  return record;
}

// What prepare.json holds: nothing that depends on where, when or by how many threads it was made.
Json Record(const PrepareTextOptions& options, const PrepareSettings& settings,
            const PreparedText& prepared, const Tokenizer& tokenizer) {
  return {{"format", "tost prepared text"},
          {"version", 1},
          {"settings",
           {{"inputs", options.inputs},
            {"tokenizer", options.tokenizer},
            {"json_field", options.json_field},
            {"split", settings.tail ? "tail" : "documents"},
            {"validation_fraction", settings.fraction},
            {"seed", options.seed},
            {"layout", options.layout},
            {"shard_tokens", options.shard_tokens},
            {"special_tokens", options.special_tokens}}},
          {"tokenizer",
           {{"name", tokenizer.name()},
            {"digest", tokenizer.digest()},
            {"vocabulary", tokenizer.vocabulary()}}},
          {"documents", prepared.documents},
          {"empty_documents", prepared.empty_documents},
          {"skipped_files", prepared.skipped.count},
          {"train", RecordOf(prepared.train, settings.tail)},
          {"val", RecordOf(prepared.validation, settings.tail)}};
}

class Preparation {
 public:
  Preparation(const PrepareTextOptions& options, const PrepareObserver& observer,
              PrepareSettings settings)
      : options_(options),
        observer_(observer),
        settings_(settings),
        inputs_(NameOf(options.inputs)) {}

  absl::StatusOr<PreparedText> Run() {
    TOST_ASSIGN_OR_RETURN(
        const std::unique_ptr<OutputFolder> output,
        OutputFolder::Create(options_.output, options_.overwrite, &IsPreparedFile));
    folder_ = output->partial();
    TOST_ASSIGN_OR_RETURN(TextEncoder encoder, Survey());
    TOST_ASSIGN_OR_RETURN(const PreparedText prepared, Encode(encoder));
    TOST_RETURN_IF_ERROR(WriteJsonFiles(prepared, encoder.tokenizer()));
    TOST_RETURN_IF_ERROR(output->Publish());
    return prepared;
  }

 private:
  absl::StatusOr<Corpus> OpenCorpus() const {
    return Corpus::Open(options_.inputs, {.json_field = options_.json_field});
  }

  absl::StatusOr<Tokenizer> LoadTokenizer() const {
    TOST_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::Named(options_.tokenizer));
    if (settings_.tail || tokenizer.end_of_text().has_value()) return tokenizer;
    return absl::InvalidArgumentError(
        absl::StrCat(options_.tokenizer,
                     " has no token <|endoftext|> to put between documents; use --split tail"));
  }

  // All that must be known before the first token can be written.
  absl::StatusOr<TextEncoder> Survey() {
    std::optional<Tokenizer> tokenizer;
    if (!settings_.characters) {
      TOST_ASSIGN_OR_RETURN(tokenizer, LoadTokenizer());
    }
    TOST_ASSIGN_OR_RETURN(Corpus corpus, OpenCorpus());
    progress_.readings = settings_.readings();
    progress_.input_bytes = settings_.readings() * corpus.input_bytes();
    const PrepareEstimate estimate =
        Estimate(corpus, settings_, tokenizer.has_value() ? tokenizer->vocabulary() : 0);
    observer_.begin(estimate);
    TOST_RETURN_IF_ERROR(CheckRoom(estimate, folder_));

    TextSplit split = DocumentSplit(settings_.fraction, options_.seed);
    if (settings_.readings() == 2) {
      TOST_ASSIGN_OR_RETURN(const CharacterCount count, Count(corpus));
      if (settings_.characters) {
        tokenizer = Tokenizer::OfCharacters(CharacterVocabulary::Of(count.kinds()));
      }
      if (settings_.tail) {
        const TailSplit tail(settings_.fraction, count.characters());
        TOST_RETURN_IF_ERROR(tail.CheckBothSides(inputs_));
        split = tail;
      }
    }
    return TextEncoder(
        *std::move(tokenizer), std::move(split),
        {.folder = folder_,
         .layout = settings_.layout,
         .shard_tokens = options_.shard_tokens,
         .special = options_.special_tokens ? SpecialTokens::kRecognised : SpecialTokens::kPlain});
  }

  absl::StatusOr<CharacterCount> Count(Corpus& corpus) {
    CharacterCount count;
    const auto add = [&](const CorpusBatch& batch) -> absl::Status {
      for (const TextPiece& piece : batch.pieces) {
        if (settings_.characters) {
          TOST_RETURN_IF_ERROR(count.AddKinds(piece));
        } else {
          count.Add(piece);
        }
      }
      return Show(batch);
    };
    TOST_RETURN_IF_ERROR(ForEachBatch(corpus, add));
    TOST_RETURN_IF_ERROR(CheckNotEmpty(corpus, inputs_));
    consumed_before_ = corpus.input_bytes();
    progress_.text_bytes = 0;
    progress_.reading = 2;
    return count;
  }

  absl::StatusOr<PreparedText> Encode(TextEncoder& encoder) {
    TOST_ASSIGN_OR_RETURN(Corpus corpus, OpenCorpus());
    const auto encode = [&](const CorpusBatch& batch) -> absl::Status {
      TOST_RETURN_IF_ERROR(encoder.Append(batch.pieces));
      progress_.tokens = encoder.train().shards.tokens() + encoder.validation().shards.tokens();
      return Show(batch);
    };
    TOST_RETURN_IF_ERROR(ForEachBatch(corpus, encode));
    TOST_RETURN_IF_ERROR(CheckNotEmpty(corpus, inputs_));
    TOST_RETURN_IF_ERROR(encoder.Finish(inputs_));
    return PreparedText{.train = Summary(encoder.train()),
                        .validation = Summary(encoder.validation()),
                        .tokenizer = encoder.tokenizer().name(),
                        .vocabulary = encoder.tokenizer().vocabulary(),
                        .documents = corpus.documents(),
                        .empty_documents = corpus.empty_documents(),
                        .skipped = corpus.skipped()};
  }

  absl::Status Show(const CorpusBatch& batch) {
    progress_.documents = batch.documents;
    progress_.text_bytes += batch.text_bytes;
    progress_.consumed_bytes = consumed_before_ + batch.consumed_bytes;
    observer_.progress(progress_);
    if (!observer_.stop()) return absl::OkStatus();
    return absl::CancelledError(
        absl::StrCat("interrupted; nothing was written to ", options_.output));
  }

  absl::Status WriteJsonFiles(const PreparedText& prepared, const Tokenizer& tokenizer) const {
    const std::string vocabulary = absl::StrCat(absl::StripSuffix(tokenizer.ToJson(), "\n"), "\n");
    TOST_RETURN_IF_ERROR(
        WriteFileAtomically(absl::StrCat(folder_, "/", kTokenizerFile), vocabulary));
    // Paths need not be UTF-8.
    const std::string record = Record(options_, settings_, prepared, tokenizer)
                                   .dump(2, ' ', false, Json::error_handler_t::replace);
    return WriteFileAtomically(absl::StrCat(folder_, "/", kPrepareFile),
                               absl::StrCat(record, "\n"));
  }

  const PrepareTextOptions& options_;
  const PrepareObserver& observer_;
  const PrepareSettings settings_;
  const std::string inputs_;  // in messages
  std::string folder_;        // where the files are made
  PrepareProgress progress_;
  int64_t consumed_before_ = 0;  // by an earlier reading
};

}  // namespace

bool IsPreparedFile(absl::string_view name) {
  absl::ConsumeSuffix(&name, kTemporarySuffix);
  if (name == kTokenizerFile || name == kPrepareFile) return true;
  if (!absl::ConsumeSuffix(&name, ".bin")) return false;
  if (!absl::ConsumePrefix(&name, Name(Split::kTrain)) &&
      !absl::ConsumePrefix(&name, Name(Split::kValidation))) {
    return false;
  }
  if (name.empty()) return true;
  return absl::ConsumePrefix(&name, "_") &&
         std::all_of(name.begin(), name.end(), absl::ascii_isdigit);
}

absl::StatusOr<PreparedText> PrepareText(const PrepareTextOptions& options,
                                         const PrepareObserver& observer) {
  TOST_ASSIGN_OR_RETURN(const PrepareSettings settings, ResolveSettings(options));
  return Preparation(options, observer, settings).Run();
}

}  // namespace tost::data
