#include "data/token_dataset.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "autograd/base/errors.h"
#include "autograd/base/log.h"

namespace tost::data {
namespace {

namespace fs = std::filesystem;

// "train", "train_000", "tiny_train" and "tiny_train_000" belong to the split "train".
bool BelongsTo(absl::string_view stem, absl::string_view split) {
  return stem == split || absl::StartsWith(stem, absl::StrCat(split, "_")) ||
         absl::EndsWith(stem, absl::StrCat("_", split)) ||
         absl::StrContains(stem, absl::StrCat("_", split, "_"));
}

absl::StatusOr<std::vector<std::string>> FindShards(const std::string& path, Split split) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    return absl::NotFoundError(absl::StrCat(
        path, " does not exist; give a token file or a folder made by `tost prepare`"));
  }
  if (!fs::is_directory(status)) return std::vector<std::string>{path};

  std::vector<std::string> shards;
  bool whole = false;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    const std::string stem = entry.path().stem().string();
    if (entry.path().extension() != ".bin" || !BelongsTo(stem, Name(split))) continue;
    whole = whole || stem == Name(split);
    shards.push_back(entry.path().string());
  }
  if (error)
    return absl::UnavailableError(absl::StrCat("cannot read folder ", path, ": ", error.message()));
  std::sort(shards.begin(), shards.end());
  const std::string expected = absl::StrCat(Name(split), ".bin or ", Name(split), "_*.bin");
  if (shards.empty()) {
    return absl::NotFoundError(
        absl::StrCat(path, " holds no ", expected, "; make them with `tost prepare`"));
  }
  if (whole && shards.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " holds ", Name(split), ".bin and ", shards.size() - 1,
                     " other shard(s) of that split; move one or the other away"));
  }
  return shards;
}

// Small 32-bit ids read as 16-bit ones alternate with zeros.
absl::Status WarnOfWiderIds(const TokenFile& file) {
  constexpr int64_t kLooked = 64;
  if (file.layout() != TokenLayout::kRaw || file.width() != 2) return absl::OkStatus();
  std::vector<int32_t> ids(static_cast<size_t>(std::min(kLooked, file.size())));
  TOST_RETURN_IF_ERROR(file.Read(0, ids));
  bool zeros = ids.size() >= 8;
  bool others = false;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i % 2 == 1) zeros = zeros && ids[i] == 0;
    if (i % 2 == 0) others = others || ids[i] != 0;
  }
  if (zeros && others) {
    LogWarning(absl::StrCat(file.path(),
                            ": every other token is 0; are these 32-bit ids? They were "
                            "read as 16-bit ones"));
  }
  return absl::OkStatus();
}

absl::Status DifferentTokenizers(const TokenFile& a, const TokenFile& b, const std::string& how) {
  return absl::InvalidArgumentError(absl::StrCat(a.path(), " and ", b.path(),
                                                 " were made by different tokenizers (", how,
                                                 "); prepare all shards of a split together"));
}

// An error when shards of one split do not agree on what they record of their tokenizer.
absl::Status CheckSameTokenizer(const std::vector<TokenFile>& shards) {
  const TokenFile* with_vocabulary = nullptr;
  const TokenFile* with_digest = nullptr;
  for (const TokenFile& shard : shards) {
    if (shard.vocabulary() != 0) {
      if (with_vocabulary == nullptr) with_vocabulary = &shard;
      if (shard.vocabulary() != with_vocabulary->vocabulary()) {
        return DifferentTokenizers(*with_vocabulary, shard,
                                   absl::StrCat("vocabularies of ", with_vocabulary->vocabulary(),
                                                " and ", shard.vocabulary()));
      }
    }
    if (!shard.tokenizer_digest().empty()) {
      if (with_digest == nullptr) with_digest = &shard;
      if (shard.tokenizer_digest() != with_digest->tokenizer_digest()) {
        return DifferentTokenizers(*with_digest, shard,
                                   absl::StrCat("digests ", with_digest->tokenizer_digest(),
                                                " and ", shard.tokenizer_digest()));
      }
    }
  }
  return absl::OkStatus();
}

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Finds the shard of number `number` when shard i has count(i) of them; returns it and the number
// inside it.
template <class Count>
std::pair<size_t, int64_t> Locate(const std::vector<TokenFile>& shards, int64_t number,
                                  const Count& count) {
  TOST_CHECK(number >= 0) << "block " << number;
  for (size_t i = 0; i < shards.size(); ++i) {
    const int64_t here = count(shards[i].size());
    if (number < here) return {i, number};
    number -= here;
  }
  TOST_CHECK(false) << "a block beyond the last";
  return {};
}

template <class Count>
int64_t Total(const std::vector<TokenFile>& shards, const Count& count) {
  int64_t total = 0;
  for (const TokenFile& shard : shards) total += count(shard.size());
  return total;
}

auto BlocksOf(int64_t block_size) {
  return [=](int64_t tokens) { return (tokens - 1) / block_size; };
}
auto WindowsOf(int64_t block_size) {
  return [=](int64_t tokens) { return std::max<int64_t>(0, tokens - block_size); };
}
auto EvaluationBlocksOf(int64_t block_size) {
  return [=](int64_t tokens) { return CeilDiv(tokens - 1, block_size); };
}

}  // namespace

const char* Name(Split split) { return split == Split::kTrain ? "train" : "val"; }

absl::StatusOr<TokenDataset> TokenDataset::Open(const std::string& path, Split split,
                                                int64_t vocabulary) {
  TokenDataset dataset;
  dataset.path_ = path;
  dataset.vocabulary_ = vocabulary;
  TOST_ASSIGN_OR_RETURN(const std::vector<std::string> shards, FindShards(path, split));
  for (const std::string& shard : shards) {
    TOST_ASSIGN_OR_RETURN(TokenFile file, TokenFile::Open(shard, vocabulary));
    LogInfo(file.Description());
    TOST_RETURN_IF_ERROR(WarnOfWiderIds(file));
    if (vocabulary > 0) {
      TOST_RETURN_IF_ERROR(file.CheckIds(vocabulary));
    } else {
      TOST_ASSIGN_OR_RETURN(const int64_t largest, file.LargestId());
      dataset.vocabulary_ = std::max({dataset.vocabulary_, file.vocabulary(), largest + 1});
    }
    if (dataset.tokenizer_digest_.empty()) dataset.tokenizer_digest_ = file.tokenizer_digest();
    dataset.shards_.push_back(std::move(file));
  }
  TOST_RETURN_IF_ERROR(CheckSameTokenizer(dataset.shards_));
  if (shards.size() > 1) {
    LogInfo(absl::StrCat(path, ": ", shards.size(), " ", Name(split), " shards of ",
                         dataset.tokens(), " tokens; the last one holds ",
                         dataset.shards_.back().size(), " (shorter is normal)"));
  }
  return dataset;
}

int64_t TokenDataset::tokens() const {
  return Total(shards_, [](int64_t tokens) { return tokens; });
}

int64_t TokenDataset::Blocks(int64_t block_size) const {
  return Total(shards_, BlocksOf(block_size));
}
int64_t TokenDataset::Windows(int64_t block_size) const {
  return Total(shards_, WindowsOf(block_size));
}
int64_t TokenDataset::EvaluationBlocks(int64_t block_size) const {
  return Total(shards_, EvaluationBlocksOf(block_size));
}

TokenDataset::Position TokenDataset::Block(int64_t number, int64_t block_size) const {
  const auto [shard, inside] = Locate(shards_, number, BlocksOf(block_size));
  return {static_cast<int64_t>(shard), inside * block_size, block_size};
}

TokenDataset::Position TokenDataset::Window(int64_t number, int64_t block_size) const {
  const auto [shard, inside] = Locate(shards_, number, WindowsOf(block_size));
  return {static_cast<int64_t>(shard), inside, block_size};
}

TokenDataset::Position TokenDataset::EvaluationBlock(int64_t number, int64_t block_size) const {
  const auto [shard, inside] = Locate(shards_, number, EvaluationBlocksOf(block_size));
  const int64_t first = inside * block_size;
  return {static_cast<int64_t>(shard), first,
          std::min(block_size, shards_[shard].size() - 1 - first)};
}

absl::Status TokenDataset::ReadRow(const Position& position, std::span<int32_t> inputs,
                                   std::span<int32_t> targets) const {
  const auto count = static_cast<size_t>(position.targets);
  TOST_CHECK(inputs.size() == targets.size() && count <= inputs.size())
      << count << " targets in a row of " << inputs.size();
  std::vector<int32_t> tokens(count + 1);
  const TokenFile& shard = shards_[static_cast<size_t>(position.shard)];
  TOST_RETURN_IF_ERROR(shard.Read(position.first, tokens));
  // Opening the shard took its header's word for the largest id.
  TOST_RETURN_IF_ERROR(shard.CheckIds(position.first, tokens, vocabulary_));
  std::copy_n(tokens.begin(), count, inputs.begin());
  std::copy_n(tokens.begin() + 1, count, targets.begin());
  std::fill(inputs.begin() + static_cast<int64_t>(count), inputs.end(), 0);
  std::fill(targets.begin() + static_cast<int64_t>(count), targets.end(), -1);
  return absl::OkStatus();
}

}  // namespace tost::data
