// Batches of token sequences as pure functions of the update number.
//
// Which sequences an update trains on depends on the seed, the update number and the global batch
// only. Ranks and micro-steps divide one global batch; nothing is stored between calls, so a
// resumed run, or one on another number of ranks, reads what the undisturbed one would have read.
#ifndef TOST_DATA_LOADER_H_
#define TOST_DATA_LOADER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "autograd/base/philox.h"
#include "autograd/tensor.h"
#include "data/prefetcher.h"
#include "data/token_dataset.h"

namespace tost::data {

enum class Sampling {
  // Every block once per epoch, in a new order each epoch.
  kPermutation,
  // The official scripts' (nanoGPT's get_batch): windows at uniformly random positions, with
  // replacement. There is no epoch: some text is read twice, some never.
  kRandomWindows,
};

// "permutation" or "random_windows".
const char* Name(Sampling sampling);
absl::StatusOr<Sampling> SamplingNamed(absl::string_view name);

// A uniform number in [0, windows), drawn by the key and the row. With 64 random bits its bias is
// below windows / 2^64.
int64_t RandomWindow(const RandomKey& key, int64_t row, int64_t windows);

struct LoaderOptions {
  int64_t block_size = 1024;  // T, inputs per sequence
  int64_t micro_batch = 8;    // b, sequences per rank and micro-step
  int64_t micro_steps = 1;    // forward-backward passes per update
  int rank = 0;
  int ranks = 1;
  uint64_t seed = 0;
  Sampling sampling = Sampling::kPermutation;

  int64_t global_batch() const { return micro_batch * micro_steps * ranks; }
};

// In host memory: whoever computes with a batch takes it to the device, on the thread that
// computes.
struct TokenBatch {
  Tensor tokens;          // [b, T] int32
  Tensor targets;         // [b, T] int32; -1: ignored
  int64_t valid_targets;  // targets >= 0
  int64_t first_row;      // row 0's place in the global batch, for RandomKey
  uint64_t digest;  // of tokens and targets, for logs and tests; never 0 for a batch with rows
};

// What an epoch of blocks comes to.
struct EpochPlan {
  int64_t tokens = 0;            // in the split
  int64_t blocks = 0;            // of block_size targets
  int64_t global_batch = 0;      // blocks per update
  int64_t updates = 0;           // per epoch: floor(blocks / global_batch)
  int64_t tokens_per_epoch = 0;  // trained on: updates * global_batch * block_size
  int64_t leftover = 0;          // targets of an epoch that no update of it reads
  // "513 tokens in 1 shard: 512 tokens per epoch, 1 update of 4 x 128 tokens per epoch, 0 tokens
  // left over"
  std::string summary;
};

// Zero updates per epoch is an error that shows the arithmetic. Each epoch leaves other blocks
// over, as each has its own order. Under kRandomWindows an epoch is only a unit of account; there
// the error is that no window fits.
absl::StatusOr<EpochPlan> PlanEpoch(const TokenDataset& data, const LoaderOptions& options);

// With n = updates per epoch, update u (from 1) belongs to epoch e = (u - 1) / n and takes the
// positions p = ((u - 1) mod n) * global_batch + i, for i in [0, global_batch), of that epoch's
// order:
//   block = Permutation(blocks, seed, e).At(p).
// Micro-step m of rank r holds i = (m * ranks + r) * b + row.
class Loader {
 public:
  // `data` must outlive the loader. Starts the thread that reads ahead. Errors as PlanEpoch's.
  static absl::StatusOr<std::unique_ptr<Loader>> Create(const TokenDataset& data,
                                                        const LoaderOptions& options);

  // `update` counts from 1, `micro_step` from 0. While the caller trains on the batch, the next one
  // in order is read; calls in any other order are as right, and wait for the disk.
  absl::StatusOr<TokenBatch> Batch(int64_t update, int64_t micro_step);

  const EpochPlan& plan() const { return plan_; }
  const LoaderOptions& options() const { return options_; }
  // Epoch of an update, from 0.
  int64_t EpochOf(int64_t update) const { return (update - 1) / plan_.updates; }
  // Shard that row 0 of the update's global batch comes from: for logs, the same on all ranks.
  int64_t ShardOf(int64_t update) const { return PositionOf(update, 0).shard; }
  // Number of the block (or window) in row `i` of the update's global batch.
  int64_t SequenceOf(int64_t update, int64_t i) const;

 private:
  Loader(const TokenDataset& data, const LoaderOptions& options, EpochPlan plan);
  // The batch of call number (update - 1) * micro_steps + micro_step.
  absl::StatusOr<TokenBatch> Assemble(int64_t call) const;
  // Place in the global batch of this rank's first row of a micro-step.
  int64_t FirstRow(int64_t micro_step) const;
  TokenDataset::Position PositionOf(int64_t update, int64_t i) const;

  const TokenDataset& data_;
  LoaderOptions options_;
  EpochPlan plan_;
  Prefetcher<TokenBatch> prefetcher_;  // the last member: its thread uses the others
};

struct EvaluationOptions {
  int64_t block_size = 1024;
  int64_t batch = 8;  // rows per rank and call
  int rank = 0;
  int ranks = 1;
  // 0: the whole split, every target exactly once, the same on any number of ranks.
  // n > 0: the official estimate_loss: n batches of random windows in all over the ranks, drawn
  // anew for every update.
  int64_t random_batches = 0;
  uint64_t seed = 0;
};

// Deterministic batches for measuring the loss of a split. All ranks make the same number of calls.
class Evaluation {
 public:
  static absl::StatusOr<Evaluation> Create(const TokenDataset& data,
                                           const EvaluationOptions& options);
  int64_t batches() const { return batches_; }
  // Batch `k` in [0, batches()) on this rank. It may have fewer rows than asked for at the end of
  // the split, at least one; rows beyond the split are all padding, so valid_targets may be 0 on a
  // rank.
  absl::StatusOr<TokenBatch> Batch(int64_t k, int64_t update = 0) const;

 private:
  const TokenDataset* data_ = nullptr;
  EvaluationOptions options_;
  int64_t sequences_ = 0;
  int64_t batches_ = 0;
};

}  // namespace tost::data

#endif  // TOST_DATA_LOADER_H_
