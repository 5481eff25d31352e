// Evaluation on texts the model has not seen, as a user runs it.
#include <sys/wait.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "data/token_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/acceptance/run_tost.h"
#include "tests/data/small_byte_pairs.h"

namespace tost::acceptance {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

constexpr char kText[] = "ROMEO: the day is done.\nJULIET: And the night comes on.\n\nBoth go.\n";

std::string Malformed(const std::string& name) {
  return absl::StrCat(TOST_SOURCE_DIR, "/tests/data/malformed/tables/", name);
}

// A run on characters, made once per process.
const std::string& CharacterRun() {
  static const std::string* const run = [] {
    auto* folder = new std::string(FreshFolder("character_run"));
    EXPECT_EQ(RunTost(TinyTraining(*folder)).exit_code, 0);
    return folder;
  }();
  return *run;
}

// A run on byte pairs that have an end-of-text, with rows of padding in its embedding.
const std::string& BytePairRun() {
  static const std::string* const run = [] {
    const std::string data = FreshFolder("byte_pairs");
    const data::Tokenizer tokenizer = data::SmallBytePairs();
    WriteFile(absl::StrCat(data, "/", data::kTokenizerFile), tokenizer.ToJson());
    std::vector<int32_t> ids;
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(tokenizer.Encode(kText, "text", ids).ok());
    for (const char* name : {"/train.bin", "/val.bin"}) {
      auto file = data::TokenFileWriter::Create(data + name, {.vocabulary = data::kSmallBytePairs});
      EXPECT_TRUE(file.ok() && file->Append(ids).ok() && file->Publish().ok());
    }
    auto* folder = new std::string(FreshFolder("byte_pair_run"));
    const Outcome trained = RunTost(TinyTraining(*folder, {"--data", data, "--vocabulary", "320"}));
    EXPECT_EQ(trained.exit_code, 0) << trained.error;
    return folder;
  }();
  return *run;
}

std::vector<std::string> Evaluate(const std::string& run, const std::string& task,
                                  const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {"evaluate", "--run", run, "--task", task};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// The figures of an evaluation that must succeed.
Json Figures(std::vector<std::string> arguments) {
  const std::string path = FreshFolder("figures") + "/figures.json";
  arguments.insert(arguments.end(), {"--json", path});
  const Outcome outcome = RunTost(arguments);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_THAT(outcome.ErrorLines(), testing::IsEmpty());
  return Json::parse(ReadFile(path), nullptr, /*allow_exceptions=*/false);
}

std::string TextFile(const std::string& text) {
  const std::string path = FreshFolder("text") + "/text.txt";
  WriteFile(path, text);
  return path;
}

TEST(E4, CharacterOfATextOutsideTheVocabulary) {
  const std::string path = TextFile("a caf\xc3\xa9");
  ExpectOneLineError(RunTost(Evaluate(CharacterRun(), "text:" + path)),
                     {path, "\xc3\xa9", "position 5"});
}

TEST(E1, MalformedTablesAreOneLineWithThePlace) {
  auto expect = [&](const std::string& task, const std::string& file,
                    const std::vector<std::string>& parts) {
    for (const char* protocol : {"standard", "official"}) {
      std::vector<std::string> all = parts;
      all.push_back(file);
      ExpectOneLineError(RunTost(Evaluate(BytePairRun(), task,
                                          {"--data", Malformed(file), "--protocol", protocol})),
                         all);
    }
  };
  expect("lambada", "lambada_one_word_line.txt", {"line 2", "single word"});
  expect("cbt-cn", "cbt_missing_candidates.txt", {"block 1", "no candidates"});
  expect("cbt-cn", "cbt_9_candidates.txt", {"block 1", "9 candidates"});
  expect("cbt-ne", "cbt_answer_not_in_candidates.txt", {"block 1", "Nobody"});
  expect("cbt-ne", "cbt_no_placeholder.txt", {"block 1", "XXXXX"});
  expect("cbt-ne", "cbt_block_cut_at_eof.txt", {"block 1", "12 of 21"});
}

TEST(E1, WhatCannotBeEvaluatedIsOneLine) {
  const std::string text = TextFile(kText), folder = FreshFolder("empty");
  auto error = [&](const std::string& task, const std::string& more,
                   const std::vector<std::string>& parts) {
    ExpectOneLineError(RunTost(Evaluate(CharacterRun(), task, Words(more))), parts);
  };
  error("lambda", "", {"--task", "lambada, wikitext2, ptb, cbt-cn, cbt-ne, text:FILE", "'lambda'"});
  error("text:", "", {"--task"});
  error("text:" + folder + "/none", "", {folder, "none"});
  error("text:" + TextFile(""), "", {"text.txt", "no token"});
  error("text:" + text, "--data x", {"--data"});
  error("text:" + text, "--stride 17", {"--stride 17", "16"});
  error("text:" + text, "--stride -1", {"--stride -1"});
  error("text:" + text, "--protocol official", {"--protocol official"});
  error("text:" + text, "--protocol ours", {"--protocol", "standard or official", "'ours'"});
  error("text:" + text, "--long_text all", {"--long_text", "windows or streaming"});
  error("text:" + text, "--long_text streaming --stride 4", {"--stride"});
  error("text:" + text, "--batch 0", {"--batch"});
  error("lambada", "", {"--data", "lambada_test.jsonl"});
  error("wikitext2", "", {"--data", "wiki.test.raw"});
  error("ptb", "--data " + folder, {folder, "ptb.test.txt"});
  error("cbt-cn", "--data " + folder, {folder, "cbtest_CN_test_2500ex.txt"});
  error("cbt-ne", "--protocol official --data " + folder, {"cbtest_NE_valid_2000ex.txt"});
  error("cbt-ne", "--by_position --data " + folder, {"--by_position"});
  error("ptb", "--protocol official --data " + text, {"end-of-text", "characters"});
  ExpectOneLineError(RunTost({"evaluate", "--run", CharacterRun(), "--stride", "4"}),
                     {"--stride", "--task"});
}

TEST(E1, RunWithoutTokenizerIsOneLine) {
  const std::string data = ShakespeareData();
  std::filesystem::remove(absl::StrCat(data, "/", data::kTokenizerFile));
  const std::string run = FreshFolder("run");
  ASSERT_EQ(RunTost(TinyTraining(run, {"--data", data})).exit_code, 0);
  ExpectOneLineError(RunTost(Evaluate(run, "text:" + TextFile(kText))), {"no tokenizer"});
}

TEST(T10, StreamingPastTheContextNamesThePolicy) {
  const std::string task = "text:" + TextFile(kText);
  const Json figures =
      Figures(Evaluate(CharacterRun(), task, {"--long_text", "streaming", "--by_position"}));
  EXPECT_EQ(figures["long_text"], "streaming");
  EXPECT_THAT(std::string(figures["positions"]), HasSubstr("beyond position 16"));
  EXPECT_EQ(figures["by_position"].back()["last"], sizeof(kText) - 2);
  const Outcome printed =
      RunTost(Evaluate(CharacterRun(), task, {"--long_text", "streaming", "--json", "-"}));
  EXPECT_THAT(printed.out, HasSubstr("beyond position 16"));

  const std::string attention = FreshFolder("run");
  ASSERT_EQ(RunTost(TinyTraining(attention, {"--model", "gpt2_char"})).exit_code, 0);
  ExpectOneLineError(RunTost(Evaluate(attention, task, {"--long_text", "streaming"})),
                     {"--long_text streaming", "softmax attention"});
  EXPECT_EQ(RunTost(Evaluate(attention, task)).exit_code, 0);
}

TEST(Evaluate, FiguresOfATextAgreeWithEachOther) {
  const Json figures = Figures(
      Evaluate(CharacterRun(), "text:" + TextFile(kText), {"--stride", "4", "--by_position"}));
  const double tokens = sizeof(kText) - 2, loss = figures["loss_per_token"];
  EXPECT_EQ(figures["tokens_scored"], tokens);
  EXPECT_EQ(figures["bytes"], sizeof(kText) - 1);
  EXPECT_EQ(figures["words"], 13);
  EXPECT_NEAR(figures["perplexity"], std::exp(loss), 1e-6 * std::exp(loss));
  EXPECT_NEAR(figures["bits_per_byte"], loss * tokens / std::log(2) / (tokens + 1), 1e-9);
  EXPECT_NEAR(std::log(double{figures["word_perplexity"]}), loss * tokens / 13, 1e-9);
  EXPECT_EQ(std::string(figures["data_digest"]).size(), 64u);
  EXPECT_EQ(std::string(figures["tokenizer_digest"]).size(), 64u);
  EXPECT_EQ(figures["update"], 4);
  int64_t counted = 0;
  double sum = 0;
  for (const Json& bucket : figures["by_position"]) {
    counted += int64_t{bucket["count"]};
    sum += double{bucket["count"]} * double{bucket["loss"]};
  }
  EXPECT_EQ(counted, tokens);
  EXPECT_NEAR(sum, loss * tokens, 1e-6);
  EXPECT_EQ(figures["by_position"].back()["last"], 16);
}

// A folder with a small file of every set under its usual name, ten examples where there are any.
const std::string& SmallSets() {
  static const std::string* const sets = [] {
    auto* folder = new std::string(FreshFolder("sets"));
    std::string passages, cloze;
    for (int i = 0; i < 10; ++i) {
      absl::StrAppend(&passages, "line number ", i, " and its la\n");
      for (int k = 1; k <= 20; ++k) absl::StrAppend(&cloze, k, " Sentence .\n");
      absl::StrAppend(&cloze, "21 The XXXXX .\ta\t\ta|b|c|d|e|f|g|h|i|j\n\n");
    }
    WriteFile(*folder + "/lambada_test_plain_text.txt", passages);
    WriteFile(*folder + "/wiki.test.raw", kText);
    WriteFile(*folder + "/ptb.test.txt", kText);
    for (const char* name :
         {"CN_test_2500ex", "CN_valid_2000ex", "NE_test_2500ex", "NE_valid_2000ex"}) {
      WriteFile(absl::StrCat(*folder, "/cbtest_", name, ".txt"), cloze);
    }
    return folder;
  }();
  return *sets;
}

// Ten examples count ten, and all figures are the same, however they are batched.
void ExpectSameFiguresForEveryBatch(const std::string& protocol) {
  for (const char* task : {"lambada", "wikitext2", "ptb", "cbt-cn", "cbt-ne"}) {
    auto figures = [&](const char* batch) {
      return Figures(Evaluate(BytePairRun(), task,
                              {"--data", SmallSets(), "--protocol", protocol, "--batch", batch,
                               "--evaluation_batches", "2"}));
    };
    const Json few = figures("3"), many = figures("32");
    ASSERT_TRUE(few.is_object() && many.is_object()) << task;
    EXPECT_THAT(std::string(few["protocol"]), testing::StartsWith(protocol)) << task;
    EXPECT_TRUE(few.contains("accuracy") || few.contains("loss_per_token")) << task;
    EXPECT_EQ(few.value("examples", 10), 10) << task;
    for (const char* name : {"accuracy", "truncated", "loss_per_token", "perplexity_per_word"}) {
      if (!few.contains(name)) continue;
      EXPECT_NEAR(many[name], double{few[name]}, 1e-5 * double{few[name]}) << task << " " << name;
    }
  }
}

TEST(Evaluate, EveryTaskByTheStandardProtocol) { ExpectSameFiguresForEveryBatch("standard"); }

TEST(Evaluate, EveryTaskByTheOfficialProtocol) { ExpectSameFiguresForEveryBatch("official"); }

TEST(Evaluate, SplitOfTokenFilesByPosition) {
  const std::string path = FreshFolder("figures") + "/figures.json";
  const std::vector<std::string> plain = {"evaluate", "--run", CharacterRun()};
  std::vector<std::string> by_position = plain;
  by_position.insert(by_position.end(), {"--by_position", "--json", path});
  const Outcome whole = RunTost(plain), parted = RunTost(by_position);
  EXPECT_THAT(parted.out, testing::StartsWith(whole.out)) << "the same loss to four digits";
  EXPECT_THAT(parted.out, HasSubstr("9-16"));
  EXPECT_EQ(Json::parse(ReadFile(path))["by_position"].size(), 5u);
}

TEST(Evaluate, SignalsEndItWithoutFigures) {
  std::string text;
  while (text.size() < 3'000'000) text += kText;
  const std::string figures = FreshFolder("figures") + "/figures.json";
  const Outcome stopped = RunTostAndSignal(
      Evaluate(CharacterRun(), "text:" + TextFile(text), {"--stride", "1", "--json", figures}),
      SIGINT, 700);
  EXPECT_EQ(stopped.exit_code, 128 + SIGINT);
  EXPECT_THAT(stopped.ErrorLines(), testing::ElementsAre(HasSubstr("tost: stopped by a signal")));
  EXPECT_FALSE(std::filesystem::exists(figures));
}

}  // namespace
}  // namespace tost::acceptance
