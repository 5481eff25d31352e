#include "data/text_encoder.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "autograd/base/errors.h"
#include "autograd/base/parallel.h"

namespace tost::data {
namespace {

// A piece, or the part of one that belongs to one side.
struct Part {
  absl::string_view text;
  const TextPiece* piece;
  TextEncoder::Side* side;
  std::vector<int32_t> ids = {};
  absl::Status status = {};
};

}  // namespace

TextEncoder::TextEncoder(Tokenizer tokenizer, TextSplit split, Options options)
    : tokenizer_(std::move(tokenizer)),
      split_(std::move(split)),
      special_(options.special),
      documents_(std::holds_alternative<DocumentSplit>(split_)),
      separator_(documents_ ? tokenizer_.end_of_text() : std::nullopt),
      train_{TokenShards(options.folder, Split::kTrain,
                         {.vocabulary = tokenizer_.vocabulary(),
                          .tokenizer_digest = tokenizer_.digest(),
                          .layout = options.layout},
                         options.shard_tokens)},
      validation_{TokenShards(options.folder, Split::kValidation,
                              {.vocabulary = tokenizer_.vocabulary(),
                               .tokenizer_digest = tokenizer_.digest(),
                               .layout = options.layout},
                              options.shard_tokens)} {}

absl::Status TextEncoder::Append(const std::vector<TextPiece>& pieces) {
  std::vector<Part> parts;
  for (const TextPiece& piece : pieces) {
    const size_t front =
        std::visit([&](auto& split) { return split.TrainingBytes(piece); }, split_);
    const absl::string_view text = piece.text;
    if (front > 0) parts.push_back({text.substr(0, front), &piece, &train_});
    if (front < text.size()) parts.push_back({text.substr(front), &piece, &validation_});
  }
  ParallelFor(static_cast<int64_t>(parts.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Part& part = parts[static_cast<size_t>(i)];
      part.status = tokenizer_.Encode(part.text, part.piece->source, part.ids, special_);
    }
  });
  for (Part& part : parts) {
    TOST_RETURN_IF_ERROR(part.status);
    const bool ends_document = documents_ && part.piece->ends_document;
    if (ends_document && separator_.has_value()) part.ids.push_back(separator_.value());
    TOST_RETURN_IF_ERROR(part.side->shards.Append(part.ids));
    part.side->text_bytes += static_cast<int64_t>(part.text.size());
    part.side->documents += ends_document ? 1 : 0;
  }
  return absl::OkStatus();
}

absl::Status TextEncoder::Finish(absl::string_view inputs) {
  TOST_RETURN_IF_ERROR(
      std::visit([&](const auto& split) { return split.CheckBothSides(inputs); }, split_));
  // The numbers of a tail are those of the reading before.
  if (train_.shards.tokens() == 0 || validation_.shards.tokens() == 0) {
    return absl::DataLossError(
        absl::StrCat(inputs, " changed while it was being read; prepare it again"));
  }
  TOST_RETURN_IF_ERROR(train_.shards.Finish());
  return validation_.shards.Finish();
}

}  // namespace tost::data
