// Pieces of a corpus to the token files of training and validation.
#ifndef TOST_DATA_TEXT_ENCODER_H_
#define TOST_DATA_TEXT_ENCODER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "data/corpus.h"
#include "data/text_split.h"
#include "data/token_file.h"
#include "data/token_shards.h"
#include "data/tokenizer.h"

namespace tost::data {

class TextEncoder {
 public:
  struct Options {
    std::string folder;
    TokenLayout layout = TokenLayout::kTost;
    int64_t shard_tokens = 0;  // as TokenShards
    SpecialTokens special = SpecialTokens::kPlain;
  };
  // Each document of a DocumentSplit is followed by the tokenizer's end-of-text id, if it has one;
  // nothing marks the documents of a TailSplit.
  TextEncoder(Tokenizer tokenizer, TextSplit split, Options options);

  // The pieces of a corpus in its order, some at a time: they are encoded by all threads, and what
  // is written does not depend on how many these are.
  absl::Status Append(const std::vector<TextPiece>& pieces);
  // An error naming the inputs when one side is empty; else completes the files.
  absl::Status Finish(absl::string_view inputs);

  struct Side {
    TokenShards shards;
    int64_t documents = 0;  // 0 for a tail
    int64_t text_bytes = 0;
  };
  const Tokenizer& tokenizer() const { return tokenizer_; }
  const Side& train() const { return train_; }
  const Side& validation() const { return validation_; }

 private:
  Tokenizer tokenizer_;
  TextSplit split_;
  SpecialTokens special_;
  bool documents_;                    // and not a tail
  std::optional<int32_t> separator_;  // after each document
  Side train_;
  Side validation_;
};

}  // namespace tost::data

#endif  // TOST_DATA_TEXT_ENCODER_H_
