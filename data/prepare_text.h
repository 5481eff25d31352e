// From texts as they are distributed to a folder of token files.
#ifndef TOST_DATA_PREPARE_TEXT_H_
#define TOST_DATA_PREPARE_TEXT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/text_files.h"

namespace tost::data {

struct PrepareTextOptions {
  std::vector<std::string> inputs;  // files, folders and archives, as Corpus reads them
  std::string output;               // folder, appears when it is complete
  // "gpt2", "chars" (the characters of the text itself), or a folder with byte-pair tables.
  std::string tokenizer = "gpt2";
  std::string json_field = "text";
  // "documents": whole documents go to training or validation (DocumentSplit), and each is followed
  // by the tokenizer's end-of-text id; characters have none, so there nothing stands between them.
  // "tail": the end of the whole text is for validation (TailSplit), nothing marks the end of a
  // document; inputs are read twice. "auto": tail for characters, documents for byte pairs.
  std::string split = "auto";
  std::optional<double> validation_fraction;  // by default 0.0005 of documents, 0.1 of a tail
  uint64_t seed = 2357;
  std::string layout = "tost";  // or "raw", ids only, as nanoGPT's train.bin
  int64_t shard_tokens = 0;     // tokens in each file; 0: all in one
  bool special_tokens = false;  // "<|endoftext|>" in a text is that id, not plain characters
  bool overwrite = false;
};

// Before the work begins. Tokens and bytes are guesses from the size of the input.
struct PrepareEstimate {
  int64_t files = 0;
  int64_t input_bytes = 0;
  int64_t tokens = 0;
  int64_t output_bytes = 0;
};

struct PrepareProgress {
  int readings = 1;  // in all; a first one of two only counts characters
  int reading = 1;
  // In this reading:
  int64_t documents = 0;
  int64_t text_bytes = 0;
  int64_t tokens = 0;
  int64_t consumed_bytes = 0;  // of the input files, in this reading and those before
  int64_t input_bytes = 0;     // of the input files, times the readings
};

struct PrepareObserver {
  std::function<void(const PrepareEstimate&)> begin = [](const PrepareEstimate&) {};
  // Called after every few megabytes of text.
  std::function<void(const PrepareProgress&)> progress = [](const PrepareProgress&) {};
  // Asked as often; true ends the work with a Cancelled error and without output.
  std::function<bool()> stop = [] { return false; };
};

struct PreparedSplit {
  int64_t documents = 0;  // 0 for a tail
  int64_t text_bytes = 0;
  int64_t tokens = 0;
  int64_t file_bytes = 0;
  int64_t shards = 0;
  int64_t last_shard_tokens = 0;
};

struct PreparedText {
  PreparedSplit train;
  PreparedSplit validation;
  std::string tokenizer;
  int64_t vocabulary = 0;
  int64_t documents = 0;
  int64_t empty_documents = 0;
  SkippedFiles skipped;
};

// Whether prepared data consist of files with such names.
bool IsPreparedFile(absl::string_view name);

// Writes train.bin and val.bin or shards of them (TokenShards), vocabulary.json
// (Tokenizer::ToJson) and prepare.json (the settings and what came of them). All cores encode
// while one thread reads and decompresses ahead; memory does not grow with the text, and the bytes
// written depend neither on the number of threads nor on how often the work was interrupted before:
// the folder appears, or replaces the old one, when it is complete. An empty text or split is an
// error.
absl::StatusOr<PreparedText> PrepareText(const PrepareTextOptions& options,
                                         const PrepareObserver& observer = {});

}  // namespace tost::data

#endif  // TOST_DATA_PREPARE_TEXT_H_
