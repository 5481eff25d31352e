// A split of a corpus: one or several token files, checked before training begins.
#ifndef TOST_DATA_TOKEN_DATASET_H_
#define TOST_DATA_TOKEN_DATASET_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/token_file.h"

namespace tost::data {

enum class Split { kTrain, kValidation };

// "train" or "val", as in file names.
const char* Name(Split split);

class TokenDataset {
 public:
  // `path` is a token file (used whatever the split), or a folder holding `train.bin`, or shards
  // `train_*.bin` (llm.c's `<corpus>_train_*.bin` too), which are taken in the order of their
  // names; `val` likewise. Checks every shard: header, size, and ids below `vocabulary`; with
  // vocabulary 0 ids are not checked. Shards that record different tokenizers or vocabularies are
  // an error. Logs the layout found.
  static absl::StatusOr<TokenDataset> Open(const std::string& path, Split split,
                                           int64_t vocabulary);

  const std::string& path() const { return path_; }
  const std::vector<TokenFile>& shards() const { return shards_; }
  int64_t tokens() const;
  // Upper limit of the ids, exclusive: as given to Open, or else the largest recorded or found + 1.
  int64_t vocabulary() const { return vocabulary_; }
  // The digest of the tokenizer that made the ids, as recorded in the shards; "": in none of them.
  const std::string& tokenizer_digest() const { return tokenizer_digest_; }

  // Training blocks: `block_size` inputs and, one position later, as many targets. Blocks follow
  // each other without overlap inside a shard and never cross shards: a shard has
  // floor((tokens - 1) / block_size) of them. They are numbered through all shards.
  int64_t Blocks(int64_t block_size) const;
  // Windows of block_size + 1 tokens at any position: tokens - block_size per shard, as nanoGPT
  // draws them.
  int64_t Windows(int64_t block_size) const;
  // Blocks including a shard's last partial one: ceil((tokens - 1) / block_size) per shard.
  int64_t EvaluationBlocks(int64_t block_size) const;

  struct Position {
    int64_t shard;
    int64_t first;    // token
    int64_t targets;  // block_size, or fewer in a shard's last evaluation block
  };
  Position Block(int64_t number, int64_t block_size) const;
  Position Window(int64_t number, int64_t block_size) const;
  Position EvaluationBlock(int64_t number, int64_t block_size) const;

  // Fills a row: inputs[i] = token first + i and targets[i] = token first + i + 1 for
  // i < position.targets, the rest 0 and -1 (ignored). Both spans have block_size elements.
  // Several threads may read at once.
  absl::Status ReadRow(const Position& position, std::span<int32_t> inputs,
                       std::span<int32_t> targets) const;

 private:
  std::string path_;
  std::vector<TokenFile> shards_;
  int64_t vocabulary_ = 0;
  std::string tokenizer_digest_;
};

}  // namespace tost::data

#endif  // TOST_DATA_TOKEN_DATASET_H_
