// Acceptance of `tost prepare text`; the names are those of the acceptance statements.
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "data/token_dataset.h"
#include "data/tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/acceptance/run_tost.h"

namespace tost::acceptance {
namespace {

namespace fs = std::filesystem;
using data::Split;
using data::TokenDataset;
using data::TokenFile;
using testing::HasSubstr;
using testing::Not;

constexpr int32_t kEndOfText = 50256;

std::string Shakespeare() {
  return ReadFile(std::string(TOST_SOURCE_DIR) + "/data/samples/tinyshakespeare.txt");
}

std::vector<std::string> Prepare(const std::string& input, const std::string& output,
                                 const std::string& more = "") {
  return Words("prepare text --input " + input + " --output " + output + " " + more);
}

std::vector<int32_t> Ids(const std::string& folder, Split split) {
  const absl::StatusOr<TokenDataset> data = TokenDataset::Open(folder, split, 50257);
  EXPECT_TRUE(data.ok()) << data.status();
  std::vector<int32_t> ids;
  for (const TokenFile& shard : data->shards()) {
    std::vector<int32_t> more(static_cast<size_t>(shard.size()));
    EXPECT_TRUE(shard.Read(0, more).ok());
    ids.insert(ids.end(), more.begin(), more.end());
  }
  return ids;
}

// Everything in a folder as one string.
std::string Content(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(folder)) paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  std::string content;
  for (const std::string& path : paths) {
    content += fs::path(path).filename().string() + "\n" + ReadFile(path);
  }
  return content;
}

std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(D1, EmptyTextOrSplitIsOneLineAndLeavesNoFile) {
  const std::string folder = FreshFolder("d1");
  WriteFile(folder + "/empty.txt", "");
  WriteFile(folder + "/three.txt", "abc");
  WriteFile(folder + "/two.jsonl", "{\"text\":\"one\"}\n{\"text\":\"two\"}\n");
  const std::vector<std::string> before = NamesIn(folder);
  const std::string out = folder + "/out";
  for (const char* tokenizer : {"gpt2", "chars"}) {
    const std::string option = std::string("--tokenizer ") + tokenizer;
    ExpectOneLineError(RunTost(Prepare(folder + "/empty.txt", out, option)),
                       {"empty.txt", "empty"});
    ExpectOneLineError(RunTost(Prepare(folder + "/three.txt", out,
                                       option + " --split tail --validation_fraction 1e-18")),
                       {"three.txt", "3 characters", "3 for training", "0 for validation",
                        "--validation_fraction 0.5"});
  }
  ExpectOneLineError(RunTost(Prepare(folder + "/two.jsonl", out)),
                     {"two.jsonl", "2 documents", "0.0005", "2 for training", "0 for validation",
                      "--validation_fraction 0."});
  ExpectOneLineError(RunTost(Prepare(folder + "/none.txt", out)), {"none.txt"});
  ExpectOneLineError(RunTost(Words("prepare characters " + folder + "/empty.txt --output " + out)),
                     {"empty.txt", "empty"});
  EXPECT_EQ(NamesIn(folder), before);
}

TEST(D9, AShortLastShardIsCalledNormal) {
  const std::string folder = FreshFolder("d9");
  // Each " a" is one token, and the letter at the front another one.
  std::string text = "a";
  for (int i = 1; i < 250; ++i) text += " a";
  WriteFile(folder + "/text.txt", text + " a a");
  const Outcome outcome =
      RunTost(Prepare(folder + "/text.txt", folder + "/out",
                      "--split tail --validation_fraction 0.007 --shard_tokens 100"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_THAT(outcome.out, HasSubstr("250 tokens"));
  EXPECT_THAT(outcome.out, HasSubstr("3 shards; the last one holds 50 tokens (shorter is normal)"));
  const absl::StatusOr<TokenDataset> data =
      TokenDataset::Open(folder + "/out", Split::kTrain, 50257);
  ASSERT_TRUE(data.ok()) << data.status();
  std::vector<int64_t> sizes;
  for (const TokenFile& shard : data->shards()) sizes.push_back(shard.size());
  EXPECT_THAT(sizes, testing::ElementsAre(100, 100, 50));
}

// Bounds the address space of the programs that are started while it lives.
class AddressSpaceLimit {
 public:
  explicit AddressSpaceLimit(rlim_t bytes) {
    getrlimit(RLIMIT_AS, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_AS, &limit);
  }
  ~AddressSpaceLimit() { setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_{};
};

// The largest memory of all programs that have ended so far, in bytes.
int64_t LargestMemory() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

std::string Repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

// The text of the statement has 1 GiB; that memory does not grow with the text is seen on less.
TEST(D11, MemoryIsBoundedHoweverLongTheText) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer reserves more than the limit";
#endif
  const std::string folder = FreshFolder("d11");
  const std::string text = Shakespeare();
  WriteFile(folder + "/short.txt", Repeated(text, 20));  // more than is ever in memory
  WriteFile(folder + "/long.txt", Repeated(text, 50));
  const auto more_text = static_cast<int64_t>(30 * text.size());
  const AddressSpaceLimit limit(rlim_t{512} << 20);
  const auto run = [&](const std::string& name) {
    const Outcome outcome =
        RunTost(Words("--threads 2 prepare text --split tail --input " + folder + "/" + name +
                      ".txt --output " + folder + "/" + name));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
    return LargestMemory();
  };
  const int64_t short_memory = run("short");
  const int64_t long_memory = run("long");
  // Half of the text: memory that is freed and fragmented levels off some megabytes higher.
  EXPECT_LT(long_memory - short_memory, more_text / 2) << short_memory;
}

TEST(D11, KilledAndRunAgainGivesTheSameBytes) {
  const std::string folder = FreshFolder("kill");
  WriteFile(folder + "/text.txt", Repeated(Shakespeare(), 10));
  const std::string options = "--split tail --shard_tokens 1000000";
  const Outcome undisturbed = RunTost(Prepare(folder + "/text.txt", folder + "/a", options));
  ASSERT_EQ(undisturbed.exit_code, 0) << undisturbed.error;
  const std::string expected = Content(folder + "/a");
  int killed = 0;
  for (const int milliseconds : {20, 80, 250}) {
    fs::remove_all(folder + "/b");
    const Outcome outcome = RunTostAndSignal(Prepare(folder + "/text.txt", folder + "/b", options),
                                             SIGKILL, milliseconds);
    killed += outcome.exit_code == 128 + SIGKILL ? 1 : 0;
    EXPECT_EQ(fs::exists(folder + "/b"), outcome.exit_code == 0);
    const Outcome again =
        RunTost(Prepare(folder + "/text.txt", folder + "/b", options + " --overwrite"));
    EXPECT_EQ(again.exit_code, 0) << again.error;
    EXPECT_TRUE(Content(folder + "/b") == expected);
  }
  EXPECT_GT(killed, 0);
  EXPECT_THAT(NamesIn(folder), testing::ElementsAre("a", "b", "text.txt"));
}

TEST(D11, ASignalLeavesTheOldOutput) {
  const std::string folder = FreshFolder("signal");
  WriteFile(folder + "/text.txt", Repeated(Shakespeare(), 80));
  WriteFile(folder + "/old.txt", "the old text");
  ASSERT_EQ(RunTost(Prepare(folder + "/old.txt", folder + "/out", "--split tail")).exit_code, 0);
  const std::string old = Content(folder + "/out");
  const Outcome outcome = RunTostAndSignal(
      Prepare(folder + "/text.txt", folder + "/out", "--split tail --overwrite"), SIGTERM, 500);
  EXPECT_EQ(outcome.exit_code, 128 + SIGTERM) << outcome.error;
  EXPECT_EQ(outcome.ErrorLines().size(), 1u) << outcome.error;
  EXPECT_TRUE(Content(folder + "/out") == old);
  EXPECT_THAT(NamesIn(folder), testing::ElementsAre("old.txt", "out", "text.txt"));
}

TEST(D13, TheMarkerInATextIsPlainUnlessAFlagSaysOtherwise) {
  const std::string folder = FreshFolder("d13");
  WriteFile(folder + "/a.jsonl",
            "{\"text\":\"a<|endoftext|>b\"}\n{\"text\":\"c<|endoftext|>d\"}\n");
  const auto markers = [&](const std::string& flag) {
    const std::string out = FreshFolder("out") + "/out";
    const Outcome outcome =
        RunTost(Prepare(folder + "/a.jsonl", out, "--validation_fraction 0.1 --seed 2 " + flag));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
    std::vector<int64_t> counts;
    for (const Split split : {Split::kTrain, Split::kValidation}) {
      const std::vector<int32_t> ids = Ids(out, split);
      EXPECT_EQ(ids.back(), kEndOfText);
      counts.push_back(std::count(ids.begin(), ids.end(), kEndOfText));
    }
    return counts;
  };
  EXPECT_THAT(markers(""), testing::ElementsAre(1, 1));
  EXPECT_THAT(markers("--special_tokens"), testing::ElementsAre(2, 2));
}

TEST(E1, InputsThatCannotBePrepared) {
  const std::string folder = FreshFolder("e1");
  const std::string malformed = std::string(TOST_SOURCE_DIR) + "/tests/data/malformed/text/";
  const std::pair<const char*, const char*> broken[] = {{"utf16le.txt", "UTF-16"},
                                                        {"bad_line.jsonl", "line 2"},
                                                        {"missing_text_key.jsonl", "line 2"},
                                                        {"text_not_a_string.jsonl", "line 2"},
                                                        {"lone_surrogate.jsonl", "line 1"},
                                                        {"array_instead_of_object.jsonl", "line 1"},
                                                        {"deep_nesting.jsonl", "line 1"},
                                                        {"truncated_data.xz", "cut"},
                                                        {"not_xz_data.xz", "name"}};
  for (const auto& [name, what] : broken) {
    ExpectOneLineError(RunTost(Prepare(malformed + name, folder + "/out")), {name, what});
  }
  ExpectOneLineError(RunTost(Words("prepare text --output " + folder + "/out")), {"input"});
  ExpectOneLineError(RunTost(Prepare(malformed + "crlf.txt", folder + "/out", "--split half")),
                     {"--split", "half"});
  WriteFile(folder + "/thesis.tex", "mine");
  ExpectOneLineError(RunTost(Prepare(malformed + "crlf.txt", folder, "--split tail --overwrite")),
                     {"thesis.tex", "in the way"});
  EXPECT_THAT(NamesIn(folder), testing::ElementsAre("thesis.tex"));
}

TEST(E5, OutputThatIsNoTerminalIsPlainAndRare) {
  const std::string folder = FreshFolder("e5");
  WriteFile(folder + "/text.txt", Repeated(Shakespeare(), 20));
  const Outcome outcome = RunTost(Prepare(folder + "/text.txt", folder + "/out", "--split tail"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_THAT(outcome.error, Not(HasSubstr("\x1b")));
  EXPECT_THAT(outcome.error, Not(HasSubstr("\r")));
  EXPECT_LE(std::count(outcome.error.begin(), outcome.error.end(), '\n'), 4) << outcome.error;
  EXPECT_THAT(outcome.error, HasSubstr("1 input file of 22.3 MB; about "));
  EXPECT_THAT(outcome.out, HasSubstr("bytes per token"));
}

}  // namespace
}  // namespace tost::acceptance
