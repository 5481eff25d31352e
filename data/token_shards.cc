#include "data/token_shards.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "autograd/base/errors.h"

namespace tost::data {

absl::Status TokenShards::Open() {
  const std::string number = shard_tokens_ > 0 ? absl::StrFormat("_%06d", shards_) : "";
  const std::string path = absl::StrCat(folder_, "/", Name(split_), number, ".bin");
  TOST_ASSIGN_OR_RETURN(TokenFileWriter writer, TokenFileWriter::Create(path, file_));
  writer_.emplace(std::move(writer));
  return absl::OkStatus();
}

absl::Status TokenShards::Close() {
  TOST_RETURN_IF_ERROR(writer_->Finish());
  TOST_RETURN_IF_ERROR(writer_->Publish());
  ++shards_;
  bytes_ += writer_->bytes();
  last_shard_tokens_ = writer_->size();
  writer_.reset();
  return absl::OkStatus();
}

absl::Status TokenShards::Append(std::span<const int32_t> ids) {
  while (!ids.empty()) {
    if (!writer_.has_value()) TOST_RETURN_IF_ERROR(Open());
    size_t count = ids.size();
    if (shard_tokens_ > 0) {
      count = std::min(count, static_cast<size_t>(shard_tokens_ - writer_->size()));
    }
    TOST_RETURN_IF_ERROR(writer_->Append(ids.first(count)));
    tokens_ += static_cast<int64_t>(count);
    ids = ids.subspan(count);
    if (writer_->size() == shard_tokens_) TOST_RETURN_IF_ERROR(Close());
  }
  return absl::OkStatus();
}

absl::Status TokenShards::Finish() { return writer_.has_value() ? Close() : absl::OkStatus(); }

}  // namespace tost::data
