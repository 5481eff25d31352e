#include "data/loader.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "autograd/base/errors.h"
#include "autograd/base/philox.h"
#include "data/permutation.h"

namespace tost::data {
namespace {

// Tells the draws of training windows and of evaluation windows apart under one seed.
constexpr uint32_t kTrainingWindows = 0x74726e;
constexpr uint32_t kEvaluationWindows = 0x76616c;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// A batch in host memory, before its tensors are made.
struct Rows {
  std::vector<int32_t> tokens;
  std::vector<int32_t> targets;
};

Rows MakeRows(int64_t rows, int64_t block_size) {
  const auto count = static_cast<size_t>(rows * block_size);
  return {.tokens = std::vector<int32_t>(count, 0), .targets = std::vector<int32_t>(count, -1)};
}

absl::Status FillRow(const TokenDataset& data, const TokenDataset::Position& position, int64_t row,
                     int64_t block_size, Rows& rows) {
  const auto first = static_cast<size_t>(row * block_size);
  const auto count = static_cast<size_t>(block_size);
  return data.ReadRow(position, std::span(rows.tokens).subspan(first, count),
                      std::span(rows.targets).subspan(first, count));
}

// A 64-bit digest by one multiplication per token, with the steps of splitmix64.
uint64_t DigestOf(const Rows& rows) {
  uint64_t digest = 0x9E3779B97F4A7C15u;
  const auto mix = [&](const std::vector<int32_t>& ids) {
    for (int32_t id : ids) {
      digest = (digest ^ static_cast<uint32_t>(id)) * 0xBF58476D1CE4E5B9u;
      digest ^= digest >> 31;
    }
  };
  mix(rows.tokens);
  mix(rows.targets);
  return digest;
}

TokenBatch ToBatch(const Rows& rows, int64_t block_size, int64_t first_row) {
  const Shape shape{static_cast<int64_t>(rows.tokens.size()) / block_size, block_size};
  return {.tokens = Tensor::FromHost(shape, rows.tokens),
          .targets = Tensor::FromHost(shape, rows.targets),
          .valid_targets = std::count_if(rows.targets.begin(), rows.targets.end(),
                                         [](int32_t id) { return id >= 0; }),
          .first_row = first_row,
          .digest = DigestOf(rows)};
}

RandomKey WindowKey(uint64_t seed, int64_t update, uint32_t draw) {
  return {.seed = seed, .step = static_cast<uint32_t>(update), .draw = draw};
}

absl::Status CheckOptions(const LoaderOptions& options) {
  TOST_CHECK(options.rank >= 0 && options.rank < options.ranks)
      << "rank " << options.rank << " of " << options.ranks;
  if (options.block_size < 1 || options.micro_batch < 1 || options.micro_steps < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("block size ", options.block_size, ", micro-batch ", options.micro_batch,
                     " and micro-steps ", options.micro_steps, " must all be at least 1"));
  }
  return absl::OkStatus();
}

absl::Status NoUpdate(const TokenDataset& data, const LoaderOptions& options, int64_t blocks) {
  const int64_t block = options.block_size;
  const std::string shards = data.shards().size() == 1
                                 ? absl::StrCat(data.tokens(), " tokens make floor((",
                                                data.tokens(), " - 1) / ", block, ") = ", blocks)
                                 : absl::StrCat(data.tokens(), " tokens in ", data.shards().size(),
                                                " shards make ", blocks);
  return absl::FailedPreconditionError(
      absl::StrCat(data.path(), ": ", shards, " blocks of ", block, ", but one update takes ",
                   options.global_batch(), " (", options.micro_batch, " sequences x ",
                   options.micro_steps, " micro-steps x ", options.ranks,
                   " ranks): 0 updates per epoch; use more text, a shorter "
                   "block or a smaller batch"));
}

absl::Status NoWindow(const TokenDataset& data, int64_t block_size) {
  return absl::FailedPreconditionError(absl::StrCat(
      data.path(), ": no shard of its ", data.tokens(), " tokens is longer than one block of ",
      block_size, "; use more text or a shorter block"));
}

std::string Counted(int64_t count, absl::string_view noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

}  // namespace

const char* Name(Sampling sampling) {
  return sampling == Sampling::kPermutation ? "permutation" : "random_windows";
}

absl::StatusOr<Sampling> SamplingNamed(absl::string_view name) {
  for (Sampling sampling : {Sampling::kPermutation, Sampling::kRandomWindows}) {
    if (name == Name(sampling)) return sampling;
  }
  return absl::InvalidArgumentError(absl::StrCat("no sampling is called \"", name,
                                                 "\"; there are permutation and random_windows"));
}

int64_t RandomWindow(const RandomKey& key, int64_t row, int64_t windows) {
  const Philox4 random = RandomWords(key, row, 0);
  const uint64_t bits = uint64_t{random.word[0]} << 32 | random.word[1];
  return static_cast<int64_t>(bits % static_cast<uint64_t>(windows));
}

absl::StatusOr<EpochPlan> PlanEpoch(const TokenDataset& data, const LoaderOptions& options) {
  TOST_RETURN_IF_ERROR(CheckOptions(options));
  const int64_t block = options.block_size;
  EpochPlan plan{.tokens = data.tokens(),
                 .blocks = data.Blocks(block),
                 .global_batch = options.global_batch()};
  plan.updates = plan.blocks / plan.global_batch;
  if (options.sampling == Sampling::kRandomWindows) {
    if (data.Windows(block) == 0) return NoWindow(data, block);
    plan.updates = std::max<int64_t>(1, plan.updates);
  } else if (plan.updates == 0) {
    return NoUpdate(data, options, plan.blocks);
  }
  plan.tokens_per_epoch = plan.updates * plan.global_batch * block;
  const int64_t targets = plan.tokens - static_cast<int64_t>(data.shards().size());
  plan.leftover = std::max<int64_t>(0, targets - plan.tokens_per_epoch);
  plan.summary =
      absl::StrCat(Counted(plan.tokens, "token"), " in ",
                   Counted(static_cast<int64_t>(data.shards().size()), "shard"), ": ",
                   plan.tokens_per_epoch, " tokens per epoch, ", Counted(plan.updates, "update"),
                   " of ", plan.global_batch, " x ", block, " tokens per epoch, ");
  absl::StrAppend(&plan.summary, options.sampling == Sampling::kRandomWindows
                                     ? "drawn at random positions"
                                     : absl::StrCat(Counted(plan.leftover, "token"), " left over"));
  return plan;
}

Loader::Loader(const TokenDataset& data, const LoaderOptions& options, EpochPlan plan)
    : data_(data),
      options_(options),
      plan_(std::move(plan)),
      prefetcher_([this](int64_t call) { return Assemble(call); }, /*workers=*/1) {}

absl::StatusOr<std::unique_ptr<Loader>> Loader::Create(const TokenDataset& data,
                                                       const LoaderOptions& options) {
  TOST_ASSIGN_OR_RETURN(EpochPlan plan, PlanEpoch(data, options));
  return std::unique_ptr<Loader>(new Loader(data, options, std::move(plan)));
}

absl::StatusOr<TokenBatch> Loader::Assemble(int64_t call) const {
  const int64_t update = call / options_.micro_steps + 1;
  const int64_t first = FirstRow(call % options_.micro_steps);
  Rows rows = MakeRows(options_.micro_batch, options_.block_size);
  for (int64_t row = 0; row < options_.micro_batch; ++row) {
    TOST_RETURN_IF_ERROR(
        FillRow(data_, PositionOf(update, first + row), row, options_.block_size, rows));
  }
  return ToBatch(rows, options_.block_size, first);
}

int64_t Loader::FirstRow(int64_t micro_step) const {
  return (micro_step * options_.ranks + options_.rank) * options_.micro_batch;
}

int64_t Loader::SequenceOf(int64_t update, int64_t i) const {
  TOST_CHECK(update >= 1 && i >= 0 && i < plan_.global_batch)
      << "row " << i << " of update " << update;
  if (options_.sampling == Sampling::kRandomWindows) {
    return RandomWindow(WindowKey(options_.seed, update, kTrainingWindows), i,
                        data_.Windows(options_.block_size));
  }
  const Permutation order(plan_.blocks, options_.seed, static_cast<uint64_t>(EpochOf(update)));
  return order.At((update - 1) % plan_.updates * plan_.global_batch + i);
}

TokenDataset::Position Loader::PositionOf(int64_t update, int64_t i) const {
  const int64_t number = SequenceOf(update, i);
  return options_.sampling == Sampling::kRandomWindows ? data_.Window(number, options_.block_size)
                                                       : data_.Block(number, options_.block_size);
}

absl::StatusOr<TokenBatch> Loader::Batch(int64_t update, int64_t micro_step) {
  TOST_CHECK(update >= 1 && micro_step >= 0 && micro_step < options_.micro_steps)
      << "update " << update << ", micro-step " << micro_step;
  return prefetcher_.Take((update - 1) * options_.micro_steps + micro_step);
}

absl::StatusOr<Evaluation> Evaluation::Create(const TokenDataset& data,
                                              const EvaluationOptions& options) {
  TOST_CHECK(options.rank >= 0 && options.rank < options.ranks && options.random_batches >= 0)
      << "rank " << options.rank << " of " << options.ranks;
  if (options.block_size < 1 || options.batch < 1) {
    return absl::InvalidArgumentError(absl::StrCat("block size ", options.block_size, " and batch ",
                                                   options.batch, " must be at least 1"));
  }
  Evaluation evaluation;
  evaluation.data_ = &data;
  evaluation.options_ = options;
  const int64_t rows = options.batch * options.ranks;
  if (options.random_batches > 0) {
    if (data.Windows(options.block_size) == 0) return NoWindow(data, options.block_size);
    evaluation.sequences_ = options.random_batches * options.batch;
  } else {
    evaluation.sequences_ = data.EvaluationBlocks(options.block_size);
    if (evaluation.sequences_ == 0) return NoWindow(data, 1);
  }
  evaluation.batches_ = CeilDiv(evaluation.sequences_, rows);
  return evaluation;
}

absl::StatusOr<TokenBatch> Evaluation::Batch(int64_t k, int64_t update) const {
  TOST_CHECK(k >= 0 && k < batches_) << "batch " << k << " of " << batches_;
  const int64_t block = options_.block_size;
  const int64_t first = (k * options_.ranks + options_.rank) * options_.batch;
  const int64_t here = std::clamp<int64_t>(sequences_ - first, 0, options_.batch);
  Rows rows = MakeRows(std::max<int64_t>(1, here), block);
  for (int64_t row = 0; row < here; ++row) {
    const TokenDataset::Position position =
        options_.random_batches == 0
            ? data_->EvaluationBlock(first + row, block)
            : data_->Window(RandomWindow(WindowKey(options_.seed, update, kEvaluationWindows),
                                         first + row, data_->Windows(block)),
                            block);
    TOST_RETURN_IF_ERROR(FillRow(*data_, position, row, block, rows));
  }
  return ToBatch(rows, block, first);
}

}  // namespace tost::data
