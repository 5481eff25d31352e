// Acceptance of token data; the names are those of the acceptance statements.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "data/loader.h"
#include "data/token_dataset.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"

namespace tost::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint32_t kLlmCMagic = 20240520;
constexpr uint32_t kLlmCVersion = 1;

std::vector<uint16_t> Counting(size_t count) {
  std::vector<uint16_t> ids(count);
  std::iota(ids.begin(), ids.end(), uint16_t{0});
  return ids;
}

TokenDataset OpenAll(const std::string& path, int64_t vocabulary = 65536) {
  absl::StatusOr<TokenDataset> data = TokenDataset::Open(path, Split::kTrain, vocabulary);
  EXPECT_TRUE(data.ok()) << data.status();
  return *std::move(data);
}

TEST(D2, HeaderedAndRawFilesGiveTheSameTokensAndSayWhich) {
  TemporaryFolder folder;
  const std::string ids = BytesOf(Counting(10));
  WriteBytes(folder.File("raw.bin"), ids);
  WriteBytes(folder.File("headered.bin"), LlmCBytes(kLlmCMagic, kLlmCVersion, 10, ids));
  const std::pair<const char*, const char*> files[] = {{"raw.bin", "raw, no header"},
                                                       {"headered.bin", "llm.c header"}};
  for (const auto& [name, layout] : files) {
    testing::internal::CaptureStderr();
    const TokenDataset data = OpenAll(folder.File(name), 50257);
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr(layout));
    std::vector<int32_t> tokens(10);
    ASSERT_EQ(data.tokens(), 10);
    ASSERT_TRUE(data.shards()[0].Read(0, tokens).ok());
    EXPECT_THAT(tokens, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  }
}

TEST(D3, TruncatedShardGivesBothCountsAndSizes) {
  TemporaryFolder folder;
  WriteBytes(folder.File("train_0.bin"),
             LlmCBytes(kLlmCMagic, kLlmCVersion, 100, BytesOf(Counting(99))));
  ExpectOneLine(TokenDataset::Open(folder.path(), Split::kTrain, 50257).status(),
                {"train_0.bin", "100 tokens", "1224 bytes", "99 tokens", "1222 bytes"});
}

TEST(D4, OddByteCountIsRefusedWithItsSize) {
  TemporaryFolder folder;
  WriteBytes(folder.File("train.bin"), std::string(2049, '\x01'));
  ExpectOneLine(TokenDataset::Open(folder.path(), Split::kTrain, 50257).status(),
                {"train.bin", "2049 bytes", "2 bytes"});
}

TEST(D5, WideVocabulariesAreWrittenWith32Bits) {
  TemporaryFolder folder;
  absl::StatusOr<TokenFileWriter> writer =
      TokenFileWriter::Create(folder.File("train.bin"), {.vocabulary = 70001});
  ASSERT_TRUE(writer->Append(std::vector<int32_t>{70000, 65535, 65536}).ok());
  ASSERT_TRUE(writer->Finish().ok());
  ASSERT_TRUE(writer->Publish().ok());
  const TokenDataset data = OpenAll(folder.path(), 70001);
  std::vector<int32_t> tokens(3);
  ASSERT_TRUE(data.shards()[0].Read(0, tokens).ok());
  EXPECT_EQ(data.shards()[0].width(), 4);
  EXPECT_THAT(tokens, ElementsAre(70000, 65535, 65536));
  ExpectOneLine(
      TokenFileWriter::Create(folder.File("narrow.bin"), {.vocabulary = 70001, .width = 2})
          .status(),
      {"narrow.bin", "70001", "16 bits"});
}

TEST(D6, IdOutsideTheVocabularyIsReportedBeforeTraining) {
  TemporaryFolder folder;
  WriteBytes(folder.File("train_0.bin"), BytesOf<uint16_t>({1, 2, 3}));
  WriteBytes(folder.File("train_1.bin"), BytesOf<uint16_t>({1, 2, 70}));
  ExpectOneLine(TokenDataset::Open(folder.path(), Split::kTrain, 65).status(),
                {"train_1.bin", "position 2", "id 70", "vocabulary of 65"});
}

TEST(D7, EpochsAreCountedAndWrapAround) {
  TemporaryFolder folder;
  const LoaderOptions options{.block_size = 128, .micro_batch = 4};
  WriteBytes(folder.File("train.bin"), BytesOf(Counting(513)));
  const TokenDataset data = OpenAll(folder.path());
  const auto loader = Loader::Create(data, options);
  ASSERT_TRUE(loader.ok()) << loader.status();
  EXPECT_EQ((*loader)->plan().tokens_per_epoch, 512);
  EXPECT_EQ((*loader)->plan().updates, 1);
  EXPECT_EQ((*loader)->plan().leftover, 0);
  EXPECT_THAT((*loader)->plan().summary,
              testing::AllOf(HasSubstr("512 tokens per epoch"), HasSubstr("1 update of 4 x 128"),
                             HasSubstr("0 tokens left over")));
  for (int64_t update = 1; update <= 10; ++update) {
    const absl::StatusOr<TokenBatch> batch = (*loader)->Batch(update, 0);
    ASSERT_TRUE(batch.ok()) << batch.status();
    EXPECT_EQ(batch->valid_targets, 512);
    EXPECT_EQ((*loader)->EpochOf(update), update - 1);
  }
  WriteBytes(folder.File("train.bin"), BytesOf(Counting(100)));
  ExpectOneLine(Loader::Create(OpenAll(folder.path()), options).status(),
                {"floor((100 - 1) / 128) = 0", "takes 4", "0 updates per epoch"});
}

TEST(D8, GlobalBatchesAndLeftoversOfFourRanks) {
  struct Case {
    size_t tokens;
    int64_t updates, leftover;
  };
  for (const Case& c : {Case{100, 1, 35}, Case{129, 2, 0}, Case{140, 2, 11}}) {
    TemporaryFolder folder;
    WriteBytes(folder.File("train.bin"), BytesOf(Counting(c.tokens)));
    const TokenDataset data = OpenAll(folder.path());
    std::set<int64_t> first_sequences, shards;
    for (int rank = 0; rank < 4; ++rank) {
      const auto loader = *Loader::Create(
          data, {.block_size = 8, .micro_batch = 2, .rank = rank, .ranks = 4, .seed = 4});
      EXPECT_EQ(loader->plan().updates, c.updates);
      EXPECT_EQ(loader->plan().leftover, c.leftover);
      first_sequences.insert(loader->SequenceOf(c.updates + 1, 0));
      shards.insert(loader->ShardOf(c.updates + 1));
    }
    EXPECT_EQ(first_sequences.size(), 1u);  // all ranks agree on what an update reads
    EXPECT_EQ(shards.size(), 1u);           // and log the same shard
  }
}

// The block numbers of an epoch of 64 blocks in global order, read back from the batches: a block's
// first token is four times its number.
std::vector<int32_t> EpochOrder(const TokenDataset& data, int ranks, uint64_t seed, int64_t epoch) {
  constexpr int64_t kBlock = 4;
  constexpr int64_t kGlobalBatch = 8;
  std::map<int64_t, int32_t> order;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto loader = *Loader::Create(data, {.block_size = kBlock,
                                               .micro_batch = kGlobalBatch / ranks,
                                               .rank = rank,
                                               .ranks = ranks,
                                               .seed = seed});
    EXPECT_EQ(loader->plan().updates, 8);
    for (int64_t update = 8 * epoch + 1; update <= 8 * (epoch + 1); ++update) {
      const absl::StatusOr<TokenBatch> batch = loader->Batch(update, 0);
      EXPECT_TRUE(batch.ok()) << batch.status();
      const std::vector<int32_t> tokens = batch->tokens.ToHost<int32_t>();
      for (int64_t row = 0; row < kGlobalBatch / ranks; ++row) {
        const int32_t block = tokens[static_cast<size_t>(row * kBlock)] / kBlock;
        const int64_t place = update * kGlobalBatch + batch->first_row + row;
        EXPECT_TRUE(order.emplace(place, block).second);
      }
    }
  }
  std::vector<int32_t> blocks;
  for (const auto& [place, block] : order) blocks.push_back(block);
  return blocks;
}

TEST(D10, EachBlockOnceInTheSameGlobalOrderForAnyNumberOfRanks) {
  TemporaryFolder folder;
  WriteBytes(folder.File("train.bin"), BytesOf(Counting(64 * 4 + 1)));
  const TokenDataset data = OpenAll(folder.path());
  const std::vector<int32_t> order = EpochOrder(data, 1, 7, 0);
  std::vector<int32_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  std::vector<int32_t> all(64);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(sorted, all);
  EXPECT_NE(order, all);
  EXPECT_EQ(EpochOrder(data, 2, 7, 0), order);
  EXPECT_EQ(EpochOrder(data, 4, 7, 0), order);
  EXPECT_EQ(EpochOrder(data, 4, 7, 1), EpochOrder(data, 1, 7, 1));
  EXPECT_NE(EpochOrder(data, 1, 7, 1), order);
  EXPECT_NE(EpochOrder(data, 1, 8, 0), order);
}

// Lengthens a file to `bytes` without writing them, and puts ids at its end.
void MakeSparse(const std::string& path, int64_t bytes, const std::vector<uint16_t>& ids) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(file, 0);
  const auto size = static_cast<int64_t>(ids.size() * sizeof(uint16_t));
  ASSERT_EQ(ftruncate(file, bytes), 0);
  ASSERT_EQ(pwrite(file, ids.data(), static_cast<size_t>(size), bytes - size), size);
  close(file);
}

TEST(D15, LastBlockOfAFiveGibibyteFile) {
  constexpr int64_t kBytes = int64_t{5} << 30;
  const std::vector<uint16_t> last{11, 22, 33, 44, 55};
  TemporaryFolder folder;
  MakeSparse(folder.File("raw.bin"), kBytes, last);
  const absl::StatusOr<TokenFile> raw = TokenFile::Open(folder.File("raw.bin"), 50257);
  ASSERT_TRUE(raw.ok()) << raw.status();
  ASSERT_EQ(raw->size(), kBytes / 2);
  std::vector<int32_t> ids(5);
  ASSERT_TRUE(raw->Read(raw->size() - 5, ids).ok());
  EXPECT_THAT(ids, ElementsAre(11, 22, 33, 44, 55));

  // With a header, whose largest id is trusted, the whole data set opens at once.
  const std::string header = std::string("TOSTTOK\0", 8) + BytesOf<uint32_t>({1, 2}) +
                             BytesOf<uint64_t>({kBytes / 2 + 1, 65, 55});
  WriteBytes(folder.File("headered.bin"), header);
  MakeSparse(folder.File("headered.bin"), 1024 + kBytes + 2, last);
  const TokenDataset data = OpenAll(folder.File("headered.bin"), 65);
  std::vector<int32_t> inputs(4);
  std::vector<int32_t> targets(4);
  ASSERT_TRUE(data.ReadRow(data.Block(data.Blocks(4) - 1, 4), inputs, targets).ok());
  EXPECT_THAT(inputs, ElementsAre(11, 22, 33, 44));
  EXPECT_THAT(targets, ElementsAre(22, 33, 44, 55));
}

}  // namespace
}  // namespace tost::data
