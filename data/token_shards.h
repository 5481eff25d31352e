// One split written as one token file, or as several of the same number of tokens.
#ifndef TOST_DATA_TOKEN_SHARDS_H_
#define TOST_DATA_TOKEN_SHARDS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "data/token_dataset.h"
#include "data/token_file.h"

namespace tost::data {

class TokenShards {
 public:
  // `shard_tokens` 0: all tokens in `<split>.bin`; else `<split>_000000.bin` and so on with that
  // many tokens each, the last one with what is left. Without tokens there is no file.
  TokenShards(std::string folder, Split split, TokenFileOptions file, int64_t shard_tokens)
      : folder_(std::move(folder)),
        split_(split),
        file_(std::move(file)),
        shard_tokens_(shard_tokens) {}

  absl::Status Append(std::span<const int32_t> ids);
  absl::Status Finish();

  int64_t tokens() const { return tokens_; }
  // After Finish:
  int64_t bytes() const { return bytes_; }    // of the files
  int64_t shards() const { return shards_; }  // files
  int64_t last_shard_tokens() const { return last_shard_tokens_; }

 private:
  absl::Status Open();
  absl::Status Close();

  std::string folder_;
  Split split_;
  TokenFileOptions file_;
  int64_t shard_tokens_;
  std::optional<TokenFileWriter> writer_;
  int64_t tokens_ = 0;
  int64_t bytes_ = 0;
  int64_t shards_ = 0;
  int64_t last_shard_tokens_ = 0;
};

}  // namespace tost::data

#endif  // TOST_DATA_TOKEN_SHARDS_H_
