#include "data/loader.h"

#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"

namespace tost::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kVocabulary = 65536;

// Token i of the data is i, so that a row's first input tells where it was taken.
class LoaderTest : public testing::Test {
 protected:
  const TokenDataset& Data(size_t tokens) {
    std::vector<uint16_t> ids(tokens);
    std::iota(ids.begin(), ids.end(), uint16_t{0});
    WriteBytes(folder_.File("train.bin"), BytesOf(ids));
    data_ = std::make_unique<TokenDataset>(
        *TokenDataset::Open(folder_.path(), Split::kTrain, kVocabulary));
    return *data_;
  }

  TemporaryFolder folder_;
  std::unique_ptr<TokenDataset> data_;
};

TokenBatch Get(Loader& loader, int64_t update, int64_t micro_step) {
  absl::StatusOr<TokenBatch> batch = loader.Batch(update, micro_step);
  EXPECT_TRUE(batch.ok()) << batch.status();
  return *std::move(batch);
}

std::vector<int32_t> FirstInputs(const TokenBatch& batch) {
  const std::vector<int32_t> tokens = batch.tokens.ToHost<int32_t>();
  std::vector<int32_t> firsts;
  for (int64_t row = 0; row < batch.tokens.shape()[0]; ++row) {
    firsts.push_back(tokens[static_cast<size_t>(row * batch.tokens.shape()[1])]);
  }
  return firsts;
}

TEST_F(LoaderTest, TargetsAreTheNextTokens) {
  const auto loader = *Loader::Create(Data(100), {.block_size = 8, .micro_batch = 3});
  const TokenBatch batch = Get(*loader, 2, 0);
  EXPECT_EQ(batch.tokens.shape(), (Shape{3, 8}));
  EXPECT_EQ(batch.valid_targets, 24);
  const std::vector<int32_t> tokens = batch.tokens.ToHost<int32_t>();
  const std::vector<int32_t> targets = batch.targets.ToHost<int32_t>();
  for (size_t i = 0; i < tokens.size(); ++i) {
    EXPECT_EQ(targets[i], tokens[i] + 1);
    EXPECT_EQ(tokens[i], tokens[i / 8 * 8] + static_cast<int32_t>(i % 8));
  }
}

TEST_F(LoaderTest, SameBatchInAnyOrderOfCalls) {
  const LoaderOptions options{.block_size = 4, .micro_batch = 2, .micro_steps = 2, .seed = 3};
  const TokenDataset& data = Data(200);
  const auto forward = *Loader::Create(data, options);
  std::map<std::pair<int64_t, int64_t>, uint64_t> digests;
  for (int64_t update = 1; update <= 30; ++update) {
    for (int64_t micro = 0; micro < 2; ++micro) {
      digests[{update, micro}] = Get(*forward, update, micro).digest;
    }
  }
  const auto backward = *Loader::Create(data, options);
  for (auto it = digests.rbegin(); it != digests.rend(); ++it) {
    EXPECT_EQ(Get(*backward, it->first.first, it->first.second).digest, it->second);
  }
  const auto resumed = *Loader::Create(data, options);
  EXPECT_EQ(Get(*resumed, 17, 0).digest, (digests[{17, 0}]));
  EXPECT_EQ(Get(*resumed, 17, 0).digest, (digests[{17, 0}]));
  std::set<uint64_t> distinct;
  for (const auto& [call, digest] : digests) distinct.insert(digest);
  EXPECT_GT(distinct.size(), 50u);
}

// Layouts of the same global batch: the same rows at the same places of it.
TEST_F(LoaderTest, GlobalBatchDoesNotDependOnTheLayout) {
  const TokenDataset& data = Data(500);
  const auto rows_of = [&](int ranks, int64_t micro_steps, Sampling sampling) {
    std::map<int64_t, int32_t> rows;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto loader = *Loader::Create(data, {.block_size = 5,
                                                 .micro_batch = 8 / (ranks * micro_steps),
                                                 .micro_steps = micro_steps,
                                                 .rank = rank,
                                                 .ranks = ranks,
                                                 .seed = 21,
                                                 .sampling = sampling});
      for (int64_t micro = 0; micro < micro_steps; ++micro) {
        const TokenBatch batch = Get(*loader, 3, micro);
        int64_t row = batch.first_row;
        for (const int32_t first : FirstInputs(batch)) rows[row++] = first;
      }
    }
    return rows;
  };
  for (const Sampling sampling : {Sampling::kPermutation, Sampling::kRandomWindows}) {
    const std::map<int64_t, int32_t> reference = rows_of(1, 1, sampling);
    EXPECT_EQ(reference.size(), 8u);
    EXPECT_EQ(rows_of(1, 8, sampling), reference);
    EXPECT_EQ(rows_of(2, 4, sampling), reference);
    EXPECT_EQ(rows_of(4, 2, sampling), reference);
    EXPECT_EQ(rows_of(8, 1, sampling), reference);
  }
}

TEST_F(LoaderTest, EpochsHaveTheirOwnOrders) {
  const auto loader = *Loader::Create(Data(64 * 4 + 1), {.block_size = 4, .micro_batch = 64});
  std::set<std::vector<int32_t>> orders;
  for (int64_t epoch = 0; epoch < 5; ++epoch) {
    std::vector<int32_t> firsts = FirstInputs(Get(*loader, epoch + 1, 0));
    EXPECT_EQ(loader->EpochOf(epoch + 1), epoch);
    EXPECT_EQ(std::set<int32_t>(firsts.begin(), firsts.end()).size(), 64u);
    orders.insert(std::move(firsts));
  }
  EXPECT_EQ(orders.size(), 5u);
}

TEST_F(LoaderTest, RandomWindowsReachEveryPosition) {
  // 12 tokens, windows of 8 + 1: they can begin at 0, 1, 2, 3 (nanoGPT: randint(len - block_size)).
  const auto loader = *Loader::Create(
      Data(12), {.block_size = 8, .micro_batch = 50, .sampling = Sampling::kRandomWindows});
  const std::vector<int32_t> firsts = FirstInputs(Get(*loader, 1, 0));
  EXPECT_EQ(std::set<int32_t>(firsts.begin(), firsts.end()), (std::set<int32_t>{0, 1, 2, 3}));
  EXPECT_NE(FirstInputs(Get(*loader, 2, 0)), firsts);
}

TEST_F(LoaderTest, PlansSayWhatAnEpochIs) {
  const auto plan = [&](size_t tokens, const LoaderOptions& options) {
    return PlanEpoch(Data(tokens), options);
  };
  const LoaderOptions four_ranks{.block_size = 8, .micro_batch = 2, .ranks = 4};
  const absl::StatusOr<EpochPlan> hundred = plan(100, four_ranks);
  EXPECT_EQ(hundred->updates, 1);
  EXPECT_EQ(hundred->leftover, 35);
  EXPECT_EQ(hundred->summary,
            "100 tokens in 1 shard: 64 tokens per epoch, 1 update of 8 x 8 tokens per epoch, "
            "35 tokens left over");
  EXPECT_EQ(plan(129, four_ranks)->updates, 2);
  EXPECT_EQ(plan(129, four_ranks)->leftover, 0);
  EXPECT_EQ(plan(140, four_ranks)->updates, 2);
  EXPECT_EQ(plan(140, four_ranks)->leftover, 11);
  ExpectOneLine(plan(100, {.block_size = 128, .micro_batch = 4}).status(),
                {"floor((100 - 1) / 128) = 0", "takes 4 (4 sequences x 1 micro-steps x 1 ranks)",
                 "0 updates per epoch"});
  ExpectOneLine(plan(100, {.block_size = 0}).status(), {"block size 0"});
  ExpectOneLine(plan(8, {.block_size = 8, .sampling = Sampling::kRandomWindows}).status(),
                {"no shard of its 8 tokens is longer than one block of 8"});
}

TEST_F(LoaderTest, ReadErrorsReachTheCaller) {
  const auto loader = *Loader::Create(Data(1000), {.block_size = 8, .micro_batch = 100});
  WriteBytes(folder_.File("train.bin"), "short");
  ExpectOneLine(loader->Batch(5, 0).status(), {"train.bin", "shorter"});
}

TEST_F(LoaderTest, SamplingHasNames) {
  EXPECT_EQ(*SamplingNamed("permutation"), Sampling::kPermutation);
  EXPECT_EQ(*SamplingNamed("random_windows"), Sampling::kRandomWindows);
  ExpectOneLine(SamplingNamed("random").status(), {"\"random\"", "random_windows"});
}

TEST_F(LoaderTest, EvaluationReadsEveryTargetOnceOnAnyNumberOfRanks) {
  const TokenDataset& data = Data(47);  // 46 targets: 6 blocks of 7 and one of 4
  for (const int ranks : {1, 2, 3, 4}) {
    SCOPED_TRACE(ranks);
    std::vector<int32_t> seen;
    int64_t valid = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto evaluation =
          Evaluation::Create(data, {.block_size = 7, .batch = 2, .rank = rank, .ranks = ranks});
      ASSERT_TRUE(evaluation.ok()) << evaluation.status();
      EXPECT_EQ(evaluation->batches(), (7 + 2 * ranks - 1) / (2 * ranks));
      for (int64_t k = 0; k < evaluation->batches(); ++k) {
        const absl::StatusOr<TokenBatch> batch = evaluation->Batch(k);
        ASSERT_TRUE(batch.ok()) << batch.status();
        EXPECT_GE(batch->tokens.shape()[0], 1);
        valid += batch->valid_targets;
        for (const int32_t id : batch->targets.ToHost<int32_t>()) {
          if (id >= 0) seen.push_back(id);
        }
      }
    }
    std::sort(seen.begin(), seen.end());
    std::vector<int32_t> all(46);
    std::iota(all.begin(), all.end(), 1);
    EXPECT_EQ(seen, all);
    EXPECT_EQ(valid, 46);
  }
}

TEST_F(LoaderTest, RandomEvaluationIsAFunctionOfTheUpdate) {
  const auto evaluation = *Evaluation::Create(
      Data(1000), {.block_size = 8, .batch = 4, .random_batches = 3, .seed = 5});
  EXPECT_EQ(evaluation.batches(), 3);
  EXPECT_EQ(evaluation.Batch(1, 100)->digest, evaluation.Batch(1, 100)->digest);
  EXPECT_NE(evaluation.Batch(1, 100)->digest, evaluation.Batch(1, 200)->digest);
  EXPECT_NE(evaluation.Batch(1, 100)->digest, evaluation.Batch(2, 100)->digest);
  EXPECT_EQ(evaluation.Batch(2, 100)->valid_targets, 32);
}

TEST_F(LoaderTest, EvaluationNeedsATarget) {
  ExpectOneLine(Evaluation::Create(Data(1), {.block_size = 8}).status(), {"1 tokens"});
}

}  // namespace
}  // namespace tost::data
