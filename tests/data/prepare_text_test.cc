#include "data/prepare_text.h"

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "autograd/base/parallel.h"
#include "data/token_dataset.h"
#include "data/tokenizer.h"
#include "data/utf8.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/data/test_archives.h"
#include "tests/data/test_files.h"

namespace tost::data {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

constexpr int32_t kEndOfText = 50256;

std::string Shakespeare() {
  return std::string(TOST_SOURCE_DIR) + "/data/samples/tinyshakespeare.txt";
}

// The ids of all files of a split in a folder.
std::vector<int32_t> Ids(const std::string& folder, Split split) {
  const auto tokenizer = Tokenizer::Load(folder + "/vocabulary.json");
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto data = TokenDataset::Open(folder, split, tokenizer->vocabulary());
  EXPECT_TRUE(data.ok()) << data.status();
  std::vector<int32_t> ids;
  for (const TokenFile& shard : data->shards()) {
    std::vector<int32_t> more(static_cast<size_t>(shard.size()));
    EXPECT_TRUE(shard.Read(0, more).ok());
    ids.insert(ids.end(), more.begin(), more.end());
  }
  return ids;
}

class PrepareTextTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, absl::string_view bytes) {
    const std::string path = in_.File(name);
    fs::create_directories(fs::path(path).parent_path());
    WriteBytes(path, bytes);
    return path;
  }
  // The text of a split as it was written.
  std::string Decoded(Split split) {
    const auto tokenizer = Tokenizer::Load(out_ + "/vocabulary.json");
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
    return tokenizer->Decode(Ids(out_, split));
  }
  std::string DecodedWhole() { return Decoded(Split::kTrain) + Decoded(Split::kValidation); }
  bool NothingWritten() const { return below_.Names().empty(); }

  TemporaryFolder in_;
  TemporaryFolder below_;
  std::string out_ = below_.File("out");
};

class PrepareCharactersTest : public PrepareTextTest {
 protected:
  absl::StatusOr<PreparedText> Prepare(absl::string_view text, double fraction = 0.1) {
    return PrepareText({.inputs = {Write("text.txt", text)},
                        .output = out_,
                        .tokenizer = "chars",
                        .split = "tail",
                        .validation_fraction = fraction,
                        .overwrite = overwrite_});
  }

  bool overwrite_ = false;
};

TEST_F(PrepareCharactersTest, TinyShakespeareIsNanoGptsSplit) {
  const absl::StatusOr<PreparedText> prepared =
      PrepareText({.inputs = {Shakespeare()}, .output = out_, .tokenizer = "chars"});
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_EQ(prepared->train.tokens, 1003854);
  EXPECT_EQ(prepared->validation.tokens, 111540);
  EXPECT_EQ(prepared->vocabulary, 65);
  EXPECT_TRUE(DecodedWhole() == ReadBytes(Shakespeare()));
}

TEST_F(PrepareCharactersTest, CharactersAreCountedNotBytes) {
  ASSERT_TRUE(Prepare("\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9a", 0.2).ok());
  EXPECT_EQ(Decoded(Split::kTrain), "\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9");
  EXPECT_EQ(Decoded(Split::kValidation), "\u00e9a");
  const std::string json = ReadBytes(out_ + "/vocabulary.json");
  EXPECT_EQ(json,
            "{\"format\":\"tost characters\",\"version\":1,\"characters\":[\"a\",\"\u00e9\"]}\n");
}

TEST_F(PrepareCharactersTest, UnusualTextsComeBackWhole) {
  overwrite_ = true;
  const std::string texts[] = {
      std::string("First line.\nSecond\0line with \0\0 NULs.\n\0\nLast line.\n", 50),
      "no final newline\nlast",
      "crlf\r\nline ends\r\n",
      "\xEF\xBB\xBFwith a byte order mark\n",
      "\n\n\n\n\n",
      "before <|endoftext|> after"};
  for (const std::string& text : texts) {
    const absl::StatusOr<PreparedText> prepared = Prepare(text, 0.4);
    ASSERT_TRUE(prepared.ok()) << prepared.status();
    EXPECT_EQ(DecodedWhole(), text);
  }
}

TEST_F(PrepareCharactersTest, OneLineOfFiveMegabytes) {
  std::string text;
  while (text.size() < 5000000) text += "ordinary w\u00f6rds without any break ";
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(Prepare(text).ok());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_TRUE(DecodedWhole() == text);
}

TEST_F(PrepareCharactersTest, TextsThatAreNotUtf8) {
  ExpectOneLine(Prepare("Valid.\nBroken: \xFF\xFE").status(), {"text.txt", "offset 15 "});
  ExpectOneLine(Prepare("cut: \xE2\x82").status(), {"text.txt", "offset 5 "});
  ExpectOneLine(Prepare("\xFF\xFEh").status(), {"text.txt", "UTF-16"});
  ExpectOneLine(Prepare(std::string(3000000, 'a') + "\xFF" + std::string(10, 'b')).status(),
                {"offset 3000000 "});
  std::string words;
  while (words.size() < 3000000) words += "words ";
  ExpectOneLine(Prepare(words + "\xFF" + words).status(), {"offset 3000000 "});
  EXPECT_TRUE(NothingWritten());
}

TEST_F(PrepareCharactersTest, SplitsThatWouldBeEmpty) {
  ExpectOneLine(Prepare("").status(), {"text.txt", "empty"});
  ExpectOneLine(Prepare("a").status(), {"text.txt", "1 characters", "0 for training"});
  ExpectOneLine(Prepare("abc", 1e-18).status(), {"3 for training", "0 for validation"});
  ExpectOneLine(Prepare("abc", 0).status(), {"validation fraction"});
  ExpectOneLine(Prepare("abc", 1).status(), {"validation fraction"});
  EXPECT_TRUE(NothingWritten());
}

TEST_F(PrepareCharactersTest, DoesNotOverwriteUnasked) {
  ASSERT_TRUE(Prepare("the first text").ok());
  ExpectOneLine(Prepare("a second text, longer").status(), {"exists", "--overwrite"});
  EXPECT_EQ(DecodedWhole(), "the first text");
  overwrite_ = true;
  ASSERT_TRUE(Prepare("a second text, longer").ok());
  EXPECT_EQ(DecodedWhole(), "a second text, longer");
  EXPECT_THAT(below_.Names(), ElementsAre("out"));
}

TEST_F(PrepareCharactersTest, PathsThatDoNotServe) {
  ExpectOneLine(PrepareText({.inputs = {"/no/such.txt"}, .output = out_}).status(),
                {"/no/such.txt"});
  ExpectOneLine(PrepareText({.inputs = {in_.path()}, .output = out_}).status(), {in_.path()});
  Write("file", "x");
  ExpectOneLine(PrepareText({.inputs = {Write("text.txt", "some text to prepare")},
                             .output = in_.File("file/below")})
                    .status(),
                {in_.File("file/below")});
}

TEST_F(PrepareCharactersTest, NothingStandsBetweenDocuments) {
  Write("1.txt", "abc");
  Write("2.txt", "def");
  ASSERT_TRUE(PrepareText({.inputs = {in_.path()},
                           .output = out_,
                           .tokenizer = "chars",
                           .validation_fraction = 0.34})
                  .ok());
  EXPECT_EQ(Decoded(Split::kTrain), "abc");
  EXPECT_EQ(Decoded(Split::kValidation), "def");
  const absl::StatusOr<PreparedText> documents = PrepareText({.inputs = {in_.path()},
                                                              .output = out_,
                                                              .tokenizer = "chars",
                                                              .split = "documents",
                                                              .validation_fraction = 0.5,
                                                              .seed = 3,
                                                              .overwrite = true});
  ASSERT_TRUE(documents.ok()) << documents.status();
  EXPECT_EQ(documents->train.documents, 1);
  EXPECT_EQ(Decoded(Split::kTrain).size() + Decoded(Split::kValidation).size(), 6u);
}

TEST_F(PrepareTextTest, TinyShakespeareByBytePairsIsNanoGptsSplit) {
  const absl::StatusOr<PreparedText> prepared =
      PrepareText({.inputs = {Shakespeare()}, .output = out_, .split = "tail"});
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_EQ(prepared->train.tokens, 301966);
  EXPECT_EQ(prepared->validation.tokens, 36059);
  EXPECT_TRUE(DecodedWhole() == ReadBytes(Shakespeare()));
  const absl::StatusOr<TokenDataset> data = TokenDataset::Open(out_, Split::kTrain, 50257);
  EXPECT_EQ(data->tokenizer_digest(), Tokenizer::Gpt2().digest());
}

TEST_F(PrepareTextTest, EveryDocumentEndsWithTheSeparator) {
  Write("a.jsonl", "{\"text\":\"Hello world\"}\n{\"text\":\"\"}\n{\"text\":\" the\"}\n");
  Write("b.txt", "the");
  Write("notes.md", "not a text");
  const absl::StatusOr<PreparedText> prepared =
      PrepareText({.inputs = {in_.path()}, .output = out_, .validation_fraction = 0.6, .seed = 1});
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  std::vector<int32_t> all = Ids(out_, Split::kTrain);
  const std::vector<int32_t> validation = Ids(out_, Split::kValidation);
  all.insert(all.end(), validation.begin(), validation.end());
  EXPECT_THAT(all, testing::UnorderedElementsAre(15496, 995, kEndOfText, 262, kEndOfText, 1169,
                                                 kEndOfText));
  EXPECT_EQ(Ids(out_, Split::kTrain).back(), kEndOfText);
  EXPECT_EQ(validation.back(), kEndOfText);
  EXPECT_EQ(prepared->documents, 3);
  EXPECT_EQ(prepared->train.documents + prepared->validation.documents, 3);
  EXPECT_EQ(prepared->empty_documents, 1);
  EXPECT_EQ(prepared->skipped.count, 1);
  EXPECT_EQ(prepared->train.text_bytes + prepared->validation.text_bytes, 11 + 4 + 3);
}

TEST_F(PrepareTextTest, BytesThatAreNoUtf8ComeBack) {
  const std::string text =
      ReadBytes(std::string(TOST_SOURCE_DIR) + "/tests/data/malformed/text/invalid_utf8.txt");
  ASSERT_TRUE(
      PrepareText({.inputs = {Write("a.txt", text)}, .output = out_, .split = "tail"}).ok());
  EXPECT_EQ(DecodedWhole(), text);
}

// 300 short documents, in the ways in which they can come.
class ManyDocuments : public PrepareTextTest {
 protected:
  ManyDocuments() {
    const std::string all = ReadBytes(Shakespeare());
    for (size_t i = 0; i < 300; ++i) {
      const std::string text = all.substr(i * 3000, 100 + 7 * i);
      members_.emplace_back("doc" + std::to_string(1000 + i) + ".txt", text);
      lines_ += nlohmann::json{{"text", text}}.dump() + "\n";
    }
  }
  // Token files of the text in one file, as bytes.
  std::string Prepared(const std::string& name, absl::string_view bytes) {
    return PreparedFrom(Write(name, bytes));
  }
  std::string PreparedFrom(const std::string& path) {
    const absl::StatusOr<PreparedText> prepared = PrepareText(
        {.inputs = {path}, .output = out_, .validation_fraction = 0.05, .overwrite = true});
    EXPECT_TRUE(prepared.ok()) << prepared.status();
    EXPECT_EQ(prepared->documents, 300);
    return ReadBytes(out_ + "/train.bin") + ReadBytes(out_ + "/val.bin");
  }

  Members members_;
  std::string lines_;
};

TEST_F(ManyDocuments, GiveTheSameTokensHoweverTheyArePacked) {
  for (const auto& [name, text] : members_) Write("folder/" + name, text);
  const std::string expected = PreparedFrom(in_.File("folder"));
  EXPECT_TRUE(Prepared("a.jsonl", lines_) == expected);
  EXPECT_TRUE(Prepared("a.jsonl.xz", Compress("xz", lines_)) == expected);
  EXPECT_TRUE(Prepared("a.zip", Pack("zip", members_)) == expected);
  EXPECT_TRUE(Prepared("a.tar.gz", Compress("gzip", Pack("ustar", members_))) == expected);
  const Members first(members_.begin(), members_.begin() + 100);
  const Members second(members_.begin() + 100, members_.end());
  const Members subsets = {{"subset_1_data.xz", Compress("xz", Pack("ustar", first))},
                           {"subset_2_data.xz", Compress("xz", Pack("ustar", second))}};
  EXPECT_TRUE(Prepared("a.tar.xz", Compress("xz", Pack("ustar", subsets))) == expected);
}

TEST_F(ManyDocuments, GiveTheSameTokensOnAnyNumberOfThreads) {
  const int threads = ThreadCount();
  std::vector<std::string> outputs;
  for (int count : {1, 2, 7}) {
    SetThreadCount(count);
    outputs.push_back(Prepared("a.jsonl", lines_));
    outputs.back() += ReadBytes(out_ + "/prepare.json") + ReadBytes(out_ + "/vocabulary.json");
  }
  SetThreadCount(threads);
  EXPECT_TRUE(outputs[0] == outputs[1]);
  EXPECT_TRUE(outputs[0] == outputs[2]);
}

TEST_F(PrepareTextTest, ShardsHoldWhatTheyShould) {
  const PrepareTextOptions options{.inputs = {Shakespeare()},
                                   .output = out_,
                                   .split = "tail",
                                   .shard_tokens = 100000,
                                   .overwrite = true};
  const absl::StatusOr<PreparedText> prepared = PrepareText(options);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_EQ(prepared->train.shards, 4);
  EXPECT_EQ(prepared->train.last_shard_tokens, 1966);
  EXPECT_EQ(prepared->validation.shards, 1);
  const absl::StatusOr<TokenDataset> data = TokenDataset::Open(out_, Split::kTrain, 50257);
  ASSERT_EQ(data->shards().size(), 4u);
  EXPECT_THAT(data->shards()[0].path(), testing::EndsWith("/train_000000.bin"));
  EXPECT_EQ(data->shards()[2].size(), 100000);
  EXPECT_EQ(data->shards()[3].size(), 1966);
  EXPECT_TRUE(DecodedWhole() == ReadBytes(Shakespeare()));

  // Without shards again: nothing of them stays.
  PrepareTextOptions whole = options;
  whole.shard_tokens = 0;
  ASSERT_TRUE(PrepareText(whole).ok());
  EXPECT_TRUE(DecodedWhole() == ReadBytes(Shakespeare()));
}

TEST_F(PrepareTextTest, RawLayoutIsIdsOnly) {
  ASSERT_TRUE(PrepareText({.inputs = {Write("a.txt", "Hello world Hello")},
                           .output = out_,
                           .split = "tail",
                           .validation_fraction = 0.35,
                           .layout = "raw"})
                  .ok());
  EXPECT_EQ(ReadBytes(out_ + "/train.bin"), BytesOf<uint16_t>({15496, 995}));
  EXPECT_EQ(Decoded(Split::kValidation), " Hello");
}

// The 256 bytes and "ab" as the tables of a tokenizer, bytes in the printable form of GPT-2's.
TEST_F(PrepareTextTest, TablesWithoutASeparator) {
  nlohmann::json tokens;
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    std::string name;
    AppendUtf8(printable ? static_cast<char32_t>(byte) : next++, name);
    tokens[name] = byte;
  }
  tokens["ab"] = 256;
  Write("tables/encoder.json", tokens.dump());
  Write("tables/vocab.bpe", "a b\n");
  Write("a.jsonl", "{\"text\":\"abab\"}\n{\"text\":\"ba\"}\n");
  PrepareTextOptions options{.inputs = {in_.File("a.jsonl")},
                             .output = out_,
                             .tokenizer = in_.File("tables"),
                             .validation_fraction = 0.5};
  ExpectOneLine(PrepareText(options).status(), {"tables", "<|endoftext|>", "--split tail"});
  EXPECT_TRUE(NothingWritten());
  options.split = "tail";
  ASSERT_TRUE(PrepareText(options).ok());
  EXPECT_EQ(Ids(out_, Split::kTrain), (std::vector<int32_t>{256, 97}));  // "aba"
  EXPECT_EQ(DecodedWhole(), "ababba");
}

TEST_F(PrepareTextTest, OptionsOutsideTheirRange) {
  const std::string text = Write("a.txt", "a text");
  const auto status = [&](PrepareTextOptions options) {
    options.inputs = {text};
    options.output = out_;
    return PrepareText(options).status();
  };
  ExpectOneLine(status({.split = "half"}), {"--split", "half"});
  ExpectOneLine(status({.layout = "csv"}), {"--layout", "csv"});
  ExpectOneLine(status({.shard_tokens = -1}), {"--shard_tokens", "-1"});
  ExpectOneLine(status({.tokenizer = "chars", .special_tokens = true}), {"--special_tokens"});
  ExpectOneLine(status({.tokenizer = "/no/tables"}), {"/no/tables"});
  ExpectOneLine(PrepareText({.output = out_}).status(), {"--input"});
  ExpectOneLine(PrepareText({.inputs = {text}}).status(), {"--output"});
  EXPECT_TRUE(NothingWritten());
}

TEST_F(PrepareTextTest, StopsWhenAskedAndLeavesNothing) {
  const PrepareObserver stop{.stop = [] { return true; }};
  const absl::Status status =
      PrepareText({.inputs = {Shakespeare()}, .output = out_, .split = "tail"}, stop).status();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_TRUE(NothingWritten());
}

TEST_F(PrepareTextTest, TellsWhatIsToDoAndHowFarItIs) {
  PrepareEstimate estimate;
  PrepareProgress last;
  const PrepareObserver observer{.begin = [&](const PrepareEstimate& e) { estimate = e; },
                                 .progress = [&](const PrepareProgress& p) { last = p; }};
  ASSERT_TRUE(
      PrepareText({.inputs = {Shakespeare()}, .output = out_, .split = "tail"}, observer).ok());
  EXPECT_EQ(estimate.files, 1);
  EXPECT_EQ(estimate.input_bytes, 1115394);
  EXPECT_NEAR(static_cast<double>(estimate.tokens), 338025, 0.3 * 338025);  // 4.2 bytes a token
  EXPECT_EQ(last.reading, 2);
  EXPECT_EQ(last.tokens, 338025);
  EXPECT_EQ(last.text_bytes, 1115394);
  EXPECT_EQ(last.consumed_bytes, last.input_bytes);
}

TEST(IsPreparedFile, KnowsItsOwn) {
  for (const char* name : {"train.bin", "val.bin", "train_000012.bin", "val_000000.bin",
                           "vocabulary.json", "prepare.json", "train.bin.tmp"}) {
    EXPECT_TRUE(IsPreparedFile(name)) << name;
  }
  for (const char* name : {"model.bin", "train_x.bin", "trainer.bin", "notes.txt", ".tmp",
                           "test.bin", "config.json", ""}) {
    EXPECT_FALSE(IsPreparedFile(name)) << name;
  }
}

}  // namespace
}  // namespace tost::data
