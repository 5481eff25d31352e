// What a user's mistakes look like.
#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/acceptance/run_tost.h"
#include "trainers/sample_language.h"

namespace tost::acceptance {
namespace {

using testing::HasSubstr;

TEST(L1, UnknownOptionsAndKeysNameTheNearest) {
  const Outcome option = RunTost(TinyTraining(FreshFolder("run"), {"--learning-rte", "1e-3"}));
  ExpectOneLineError(option, {"learning_rte", "did you mean learning_rate?"});
  EXPECT_EQ(option.exit_code, 2);

  const std::string config = FreshFolder("config") + "/settings.toml";
  WriteFile(config, "learning_rte = 1e-3\n");
  const Outcome key = RunTost({"train", "language", "--config", config});
  ExpectOneLineError(key, {config, "learning_rte", "did you mean learning_rate?"});
  EXPECT_EQ(key.exit_code, 2);
}

TEST(L4, EveryCommandHasAnExample) {
  for (const std::vector<std::string>& command : {std::vector<std::string>{"train", "language"},
                                                  {"train", "vision"},
                                                  {"predict"},
                                                  {"inspect", "augment"},
                                                  {"prepare", "characters"},
                                                  {"prepare", "text"},
                                                  {"data", "check"},
                                                  {"evaluate"},
                                                  {"sample"},
                                                  {"import"},
                                                  {"export"},
                                                  {"inspect", "parameters"},
                                                  {"inspect", "models"},
                                                  {"bench", "step"},
                                                  {"bench", "tssa"},
                                                  {"bench", "decode"},
                                                  {"info"}}) {
    std::vector<std::string> help = command;
    help.push_back("--help");
    const Outcome outcome = RunTost(help);
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_THAT(outcome.out, HasSubstr("Example:\n  tost "));
  }
}

// Every recipe is understood to the last key: what stops it is that its data are not there.
TEST(Recipes, AreUnderstood) {
  int recipes = 0;
  for (const auto& file :
       std::filesystem::directory_iterator(TOST_SOURCE_DIR "/trainers/recipes")) {
    SCOPED_TRACE(file.path().string());
    // Only classifiers are trained by epochs.
    const bool vision = ReadFile(file.path()).find("\nepochs = ") != std::string::npos;
    const std::string absent = FreshFolder("absent") + "/data";
    ExpectOneLineError(
        RunTost({"train", vision ? "vision" : "language", "--config", file.path().string(),
                 "--init", "", "--data", absent, "--output", FreshFolder("run")}),
        {absent});
    ++recipes;
  }
  EXPECT_GE(recipes, 16);
}

// Asking for a device that is not there fails, whatever this program is built with; it never falls
// back in silence. "auto" does.
TEST(E3, AnAbsentDeviceIsOneLine) {
  const auto bench = [](const std::string& device) {
    return RunTost(Words("bench tssa --tokens 2 --width 2 --heads 1 --device " + device));
  };
  const Outcome outcome = bench("cuda:99");
  EXPECT_EQ(outcome.exit_code, 2);
  ExpectOneLineError(outcome, {"--device cuda:99: "});
  ExpectOneLineError(bench("tpu"), {"--device", "auto, cpu, cuda"});
  for (const char* device : {"auto", "cpu"}) EXPECT_EQ(bench(device).exit_code, 0) << device;
}

TEST(E1, FailuresOfTheUsersMakingAreOneLine) {
  const std::string folder = FreshFolder("inputs");
  const std::string run = FreshFolder("run") + "/new";
  ExpectOneLineError(RunTost({}), {"subcommand"});
  ExpectOneLineError(RunTost({"trian"}), {"trian"});
  ExpectOneLineError(RunTost({"train", "language"}), {"--data"});
  ExpectOneLineError(RunTost({"train", "language", "--data", folder}), {"--output"});
  ExpectOneLineError(RunTost({"train", "language", "--data", folder, "--output", run}), {folder});
  ExpectOneLineError(RunTost({"train", "language", "--config", folder + "/none.toml"}),
                     {"none.toml"});
  ExpectOneLineError(RunTost(TinyTraining(run, {"--steps", "many"})), {"steps"});
  ExpectOneLineError(RunTost(TinyTraining(run, {"--model", "tost_bse"})),
                     {"tost_bse", "tost_base"});
  ExpectOneLineError(RunTost(TinyTraining(run, {"--heads", "3"})), {"heads 3"});
  ExpectOneLineError(RunTost(TinyTraining(run, {"--dropout", "1.5"})), {"--dropout"});
  ExpectOneLineError(RunTost(TinyTraining(run, {"--schedule", "linear"})), {"--schedule"});
  ExpectOneLineError(RunTost(TinyTraining(run, {"--sampling", "none"})), {"none"});
  ExpectOneLineError(RunTost(TinyTraining(run, {"--compute_dtype", "float16"})), {"float16"});
  ExpectOneLineError(RunTost(TinyTraining(run, {"--vocabulary", "10"})), {"--vocabulary 10"});
  ExpectOneLineError(RunTost({"evaluate", "--run", folder}), {folder});
  ExpectOneLineError(RunTost({"sample", "--run", folder + "/none"}), {folder + "/none"});
  ExpectOneLineError(RunTost({"inspect", "parameters"}), {"--model"});
  ExpectOneLineError(RunTost({"inspect", "parameters", "--model", "gpt3"}), {"gpt3"});
  EXPECT_FALSE(std::filesystem::exists(run));
}

TEST(E1, FolderThatCannotBeWritten) {
  const std::string file = FreshFolder("inputs") + "/a_file";
  WriteFile(file, "not a folder");
  ExpectOneLineError(RunTost(TinyTraining(file + "/run")), {file});
  ExpectOneLineError(RunTost({"prepare", "characters",
                              std::string(TOST_SOURCE_DIR) + "/data/samples/tinyshakespeare.txt",
                              "--output", file + "/data"}),
                     {file});
}

TEST(E1, TextsThatCannotBePrepared) {
  const std::string folder = FreshFolder("inputs");
  auto prepare = [&](const std::string& name, const std::string& bytes) {
    WriteFile(folder + "/" + name, bytes);
    return RunTost(
        {"prepare", "characters", folder + "/" + name, "--output", folder + "/" + name + ".d"});
  };
  ExpectOneLineError(prepare("empty.txt", ""), {"empty.txt"});
  ExpectOneLineError(prepare("invalid.txt", "good text \xff\xfe and more, long enough"),
                     {"invalid.txt", "10"});
  ExpectOneLineError(prepare("cut.txt", "twenty characters go here \xe2\x82"), {"cut.txt"});
  EXPECT_FALSE(std::filesystem::exists(folder + "/empty.txt.d/train.bin"));
  EXPECT_EQ(prepare("nul.txt", std::string("a\0b and enough text for both parts", 34)).exit_code,
            0);
  std::string line;
  while (line.size() < 5'000'000) line += "one long line without an end ";
  EXPECT_EQ(prepare("line.txt", line).exit_code, 0);
}

TEST(E1, DamagedTokenFiles) {
  const std::string data = ShakespeareData();
  const std::string train = ReadFile(data + "/train.bin");
  auto run_with = [&](const std::string& bytes) {
    WriteFile(data + "/train.bin", bytes);
    return RunTost(TinyTraining(FreshFolder("run") + "/new", {"--data", data}));
  };
  ExpectOneLineError(run_with(train.substr(0, train.size() - 2)), {"train.bin"});
  ExpectOneLineError(run_with(std::string(2049, 'a')), {"train.bin", "2049"});
  ExpectOneLineError(run_with(""), {"train.bin"});
  ExpectOneLineError(run_with(std::string(4096, '\x7f')), {"train.bin", "32639"});
  EXPECT_EQ(run_with(train).exit_code, 0);
}

TEST(E4, PromptCharacterOutsideTheVocabulary) {
  const std::string run = FreshFolder("run");
  ASSERT_EQ(RunTost(TinyTraining(run)).exit_code, 0);
  ExpectOneLineError(RunTost({"sample", "--run", run, "--prompt", "caf\xc3\xa9"}), {"\xc3\xa9"});
  const Outcome sampled = RunTost({"sample", "--run", run, "--prompt", "The", "--tokens", "40"});
  EXPECT_EQ(sampled.exit_code, 0) << sampled.error;
  EXPECT_THAT(sampled.out, testing::StartsWith("The"));
  EXPECT_EQ(sampled.out.size(), 3u + 40u + 1u);
}

TEST(E4, PaddingIdsAreNeverSampled) {
  std::vector<float> logits(50304, 0.0f);
  logits[50300] = 100;
  for (float temperature : {0.0f, 0.8f}) {
    const train::SamplingRule rule{.temperature = temperature, .top_k = 10, .vocabulary = 50257};
    for (float u = 0; u < 1; u += 0.05f) EXPECT_LT(train::ChooseToken(logits, rule, u), 50257);
  }
  const std::string run = FreshFolder("run");
  ASSERT_EQ(RunTost(TinyTraining(run, {"--vocabulary", "512"})).exit_code, 0);
  const Outcome sampled =
      RunTost({"sample", "--run", run, "--tokens", "200", "--temperature", "10", "--top_k", "0"});
  EXPECT_EQ(sampled.exit_code, 0) << sampled.error;
  EXPECT_EQ(sampled.out.size(), 1u + 200u + 1u);
}

TEST(T10, DecodingPastTheContextSaysSoOnce) {
  const std::string run = FreshFolder("run");
  ASSERT_EQ(RunTost(TinyTraining(run)).exit_code, 0);
  const Outcome slid = RunTost({"sample", "--run", run, "--tokens", "60"});
  size_t told = 0;
  for (size_t at = 0; (at = slid.error.find("context of 16", at)) != std::string::npos; ++at)
    ++told;
  EXPECT_EQ(told, 1u) << slid.error;
  EXPECT_EQ(slid.out.size(), 1u + 60u + 1u);
  const Outcome stopped =
      RunTost({"sample", "--run", run, "--tokens", "60", "--past_context", "stop"});
  EXPECT_EQ(stopped.out.size(), 16u + 1u);
}

TEST(O1, InfoNamesWhatIsMissing) {
  const Outcome info = RunTost({"info"});
  EXPECT_EQ(info.exit_code, 0);
  for (const char* part : {"CUDA", "MPI", "NCCL", "threads"})
    EXPECT_THAT(info.out, HasSubstr(part));
}

}  // namespace
}  // namespace tost::acceptance
