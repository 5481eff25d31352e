#include "data/token_dataset.h"

#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"

namespace tost::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::string Counting(size_t count, uint16_t first = 0) {
  std::vector<uint16_t> ids(count);
  std::iota(ids.begin(), ids.end(), first);
  return BytesOf(ids);
}

std::vector<std::string> ShardNames(const TokenDataset& data) {
  std::vector<std::string> names;
  for (const TokenFile& shard : data.shards()) {
    names.push_back(std::filesystem::path(shard.path()).filename().string());
  }
  return names;
}

TEST(TokenDataset, FolderWithOneFilePerSplit) {
  TemporaryFolder folder;
  WriteBytes(folder.File("train.bin"), Counting(9));
  WriteBytes(folder.File("val.bin"), Counting(4, 100));
  const absl::StatusOr<TokenDataset> train = TokenDataset::Open(folder.path(), Split::kTrain, 200);
  ASSERT_TRUE(train.ok()) << train.status();
  EXPECT_EQ(train->tokens(), 9);
  EXPECT_EQ(TokenDataset::Open(folder.path(), Split::kValidation, 200)->tokens(), 4);
  EXPECT_EQ(TokenDataset::Open(folder.File("val.bin"), Split::kTrain, 200)->tokens(), 4);
}

TEST(TokenDataset, ShardsInTheOrderOfTheirNames) {
  TemporaryFolder folder;
  for (const char* name : {"fine_train_000002.bin", "fine_train_000001.bin", "fine_val_000000.bin",
                           "train_notes.txt", "restrain.bin"}) {
    WriteBytes(folder.File(name), Counting(5));
  }
  const absl::StatusOr<TokenDataset> data = TokenDataset::Open(folder.path(), Split::kTrain, 10);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(ShardNames(*data), ElementsAre("fine_train_000001.bin", "fine_train_000002.bin"));
}

TEST(TokenDataset, BlocksStayInsideTheirShard) {
  TemporaryFolder folder;
  WriteBytes(folder.File("train_0.bin"), Counting(10));      // 2 blocks of 4, 1 target over
  WriteBytes(folder.File("train_1.bin"), Counting(3, 50));   // none
  WriteBytes(folder.File("train_2.bin"), Counting(5, 100));  // 1 block
  const absl::StatusOr<TokenDataset> data = TokenDataset::Open(folder.path(), Split::kTrain, 200);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->Blocks(4), 3);
  EXPECT_EQ(data->Windows(4), 6 + 0 + 1);
  EXPECT_EQ(data->EvaluationBlocks(4), 3 + 1 + 1);
  std::vector<int32_t> inputs(4);
  std::vector<int32_t> targets(4);
  ASSERT_TRUE(data->ReadRow(data->Block(1, 4), inputs, targets).ok());
  EXPECT_THAT(inputs, ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(targets, ElementsAre(5, 6, 7, 8));
  ASSERT_TRUE(data->ReadRow(data->Block(2, 4), inputs, targets).ok());
  EXPECT_THAT(inputs, ElementsAre(100, 101, 102, 103));
  ASSERT_TRUE(data->ReadRow(data->Window(5, 4), inputs, targets).ok());
  EXPECT_THAT(targets, ElementsAre(6, 7, 8, 9));
  ASSERT_TRUE(data->ReadRow(data->EvaluationBlock(2, 4), inputs, targets).ok());
  EXPECT_THAT(inputs, ElementsAre(8, 0, 0, 0));
  EXPECT_THAT(targets, ElementsAre(9, -1, -1, -1));
  ASSERT_TRUE(data->ReadRow(data->EvaluationBlock(3, 4), inputs, targets).ok());
  EXPECT_THAT(inputs, ElementsAre(50, 51, 0, 0));
  EXPECT_THAT(targets, ElementsAre(51, 52, -1, -1));
}

TEST(TokenDataset, VocabularyMayBeFoundInTheFiles) {
  TemporaryFolder folder;
  WriteBytes(folder.File("train.bin"), BytesOf<uint16_t>({3, 9, 4}));
  EXPECT_EQ(TokenDataset::Open(folder.path(), Split::kTrain, 0)->vocabulary(), 10);
  EXPECT_EQ(TokenDataset::Open(folder.path(), Split::kTrain, 65)->vocabulary(), 65);
}

TEST(TokenDataset, FoldersThatDoNotServe) {
  TemporaryFolder folder;
  ExpectOneLine(TokenDataset::Open(folder.path(), Split::kTrain, 9).status(),
                {folder.path(), "no train.bin or train_*.bin"});
  ExpectOneLine(TokenDataset::Open(folder.File("none"), Split::kTrain, 9).status(),
                {"none", "does not exist"});
  WriteBytes(folder.File("train.bin"), Counting(3));
  WriteBytes(folder.File("train_0.bin"), Counting(3));
  ExpectOneLine(TokenDataset::Open(folder.path(), Split::kTrain, 9).status(),
                {folder.path(), "train.bin and 1 other"});
}

TEST(TokenDataset, HeaderThatLiesAboutItsLargestIdIsCaughtWhenRead) {
  TemporaryFolder folder;
  std::string bytes(1024, '\0');
  bytes.replace(0, 7, "TOSTTOK");
  bytes.replace(8, 32, BytesOf<uint32_t>({1, 2, 4, 0, 100, 0, 3, 0}));
  WriteBytes(folder.File("train.bin"), bytes + BytesOf<uint16_t>({1, 2, 70, 3}));
  const absl::StatusOr<TokenDataset> data = TokenDataset::Open(folder.path(), Split::kTrain, 65);
  ASSERT_TRUE(data.ok()) << data.status();
  std::vector<int32_t> inputs(3);
  std::vector<int32_t> targets(3);
  ExpectOneLine(data->ReadRow(data->Block(0, 3), inputs, targets),
                {"train.bin", "position 2", "id 70", "vocabulary of 65"});
}

TEST(TokenDataset, ShardsOfDifferentTokenizersAreRefused) {
  TemporaryFolder folder;
  const auto write = [&](const char* name, int64_t vocabulary, const std::string& digest) {
    absl::StatusOr<TokenFileWriter> writer = TokenFileWriter::Create(
        folder.File(name), {.vocabulary = vocabulary, .tokenizer_digest = digest});
    ASSERT_TRUE(writer->Append(std::vector<int32_t>{1, 2, 3}).ok() && writer->Finish().ok() &&
                writer->Publish().ok());
  };
  const std::string one(64, '1'), two(64, '2');
  write("train_0.bin", 65, "");
  write("train_1.bin", 65, one);
  write("train_2.bin", 65, one);
  const absl::StatusOr<TokenDataset> good = TokenDataset::Open(folder.path(), Split::kTrain, 65);
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_EQ(good->tokenizer_digest(), one);
  write("train_2.bin", 65, two);
  ExpectOneLine(TokenDataset::Open(folder.path(), Split::kTrain, 65).status(),
                {"train_1.bin", "train_2.bin", "different tokenizers", one, two});
  write("train_2.bin", 64, one);
  ExpectOneLine(TokenDataset::Open(folder.path(), Split::kTrain, 65).status(),
                {"train_0.bin", "train_2.bin", "65 and 64"});
}

TEST(TokenDataset, WarnsOf32BitIdsReadAs16BitOnes) {
  TemporaryFolder folder;
  WriteBytes(folder.File("wide.bin"),
             BytesOf<uint32_t>({15496, 995, 262, 50256, 40, 1101, 994, 11}));
  testing::internal::CaptureStderr();
  ASSERT_TRUE(TokenDataset::Open(folder.File("wide.bin"), Split::kTrain, 50257).ok());
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("every other token is 0"));
  WriteBytes(folder.File("narrow.bin"), Counting(16));
  testing::internal::CaptureStderr();
  ASSERT_TRUE(TokenDataset::Open(folder.File("narrow.bin"), Split::kTrain, 50257).ok());
  EXPECT_THAT(testing::internal::GetCapturedStderr(), Not(HasSubstr("warning")));
}

}  // namespace
}  // namespace tost::data
