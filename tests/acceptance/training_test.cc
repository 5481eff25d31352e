// Acceptance of training as a user meets it; the names are those of the acceptance statements.
#include <csignal>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/acceptance/run_tost.h"
#include "trainers/metrics.h"

namespace tost::acceptance {
namespace {

using testing::HasSubstr;

std::string Checkpoint(const std::string& run, const std::string& update) {
  return run + "/checkpoints/checkpoint_" + update + ".safetensors";
}

std::vector<double> MetricOf(const std::string& run, const std::string& kind,
                             const std::string& name) {
  const auto records = train::ReadMetrics(run + "/metrics.jsonl");
  EXPECT_TRUE(records.ok()) << records.status();
  std::vector<double> values;
  for (const train::MetricsRecord& record : *records) {
    if (record.kind == kind) values.push_back(record.Get(name));
  }
  return values;
}

void ExpectDone(const Outcome& outcome) {
  ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.error;
}

std::vector<std::string> With(std::vector<std::string> arguments,
                              const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// A copy of a run as it was at its update-10 checkpoint.
std::string AsOfUpdate10(const std::string& run) {
  const std::string copy = FreshFolder("resumed");
  std::filesystem::copy(
      run, copy,
      std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing);
  std::filesystem::remove(Checkpoint(copy, "0000020"));
  return copy;
}

// Twenty updates across an epoch border with dropout, saved at 10 and 20.
// The rate has more digits than a rounded settings file would keep.
const std::vector<std::string> kTwenty = Words(
    "--steps 20 --dropout 0.1 --checkpoint_every 10 --keep_checkpoints 0 --global_batch 100 "
    "--micro_batch 50 --learning_rate 1.23456789e-3");

TEST(C3, TwentyUpdatesEqualTenResumeTenBitForBit) {
  for (const std::string dtype : {"float32", "bfloat16"}) {
    SCOPED_TRACE(dtype);
    std::string reference;
    for (const std::string threads : {"1", "2"}) {
      const std::string run = FreshFolder("run");
      ExpectDone(RunTost(With({"--threads", threads},
                              TinyTraining(run, With(kTwenty, {"--compute_dtype", dtype})))));
      const std::string straight = TensorBytes(Checkpoint(run, "0000020"));
      ASSERT_GT(straight.size(), 1000u);
      const std::string resumed = AsOfUpdate10(run);
      ExpectDone(RunTost({"--threads", threads, "train", "language", "--resume", resumed}));
      EXPECT_TRUE(TensorBytes(Checkpoint(resumed, "0000020")) == straight);
      EXPECT_NE(TensorBytes(Checkpoint(run, "0000010")), straight);
      if (reference.empty()) reference = straight;
      EXPECT_TRUE(straight == reference) << "threads change the result";
      EXPECT_EQ(MetricOf(run, "train", "loss"), MetricOf(resumed, "train", "loss"));
      // T14: the printed rates are the same too.
      EXPECT_EQ(MetricOf(run, "train", "learning_rate"),
                MetricOf(resumed, "train", "learning_rate"));
    }
  }
}

TEST(C5, ArchitectureComesFromTheCheckpoint) {
  const std::string run = FreshFolder("run");
  ExpectDone(RunTost(TinyTraining(run)));
  ExpectOneLineError(RunTost({"train", "language", "--resume", run, "--layers", "3"}),
                     {"--layers 3 against 2"});
  ExpectOneLineError(RunTost({"train", "language", "--resume", run, "--model", "gpt2_char"}),
                     {"--model gpt2 against tost"});
  const Outcome resumed = RunTost({"train", "language", "--resume", run, "--steps", "6"});
  ExpectDone(resumed);
  EXPECT_TRUE(std::filesystem::exists(Checkpoint(run, "0000006")));
}

TEST(C6, ResumePathThatCannotBeReadIsOneLine) {
  ExpectOneLineError(RunTost({"train", "language", "--resume", "/nowhere/at/all"}),
                     {"/nowhere/at/all"});
}

TEST(C9, NonEmptyRunFolderIsRefused) {
  const std::string run = FreshFolder("run");
  ExpectDone(RunTost(TinyTraining(run)));
  const std::string before = ReadFile(Checkpoint(run, "0000004"));
  ExpectOneLineError(RunTost(TinyTraining(run)), {run, "--resume", "--overwrite"});
  EXPECT_TRUE(ReadFile(Checkpoint(run, "0000004")) == before);
  ExpectDone(RunTost(TinyTraining(run, {"--overwrite"})));
}

// C13: on the termination signal a run finishes its update, saves, says how to go on, and leaves
// with 128 + the signal's number.
TEST(C13, TerminationSavesAndLeaves) {
  const std::string run = FreshFolder("run");
  const Outcome outcome =
      RunTostAndSignal(TinyTraining(run, {"--steps", "10000000"}), SIGTERM, /*milliseconds=*/1500);
  EXPECT_EQ(outcome.exit_code, 128 + SIGTERM) << outcome.error;
  EXPECT_THAT(outcome.ErrorLines(), testing::ElementsAre(testing::AllOf(
                                        HasSubstr("everything is saved"),
                                        HasSubstr("tost train language --resume " + run))));
  const auto updates = static_cast<int64_t>(MetricOf(run, "train", "loss").size());
  ASSERT_GT(updates, 0);
  const std::string more = std::to_string(updates + 2);
  ExpectDone(RunTost({"train", "language", "--resume", run, "--steps", more}));
  EXPECT_EQ(MetricOf(run, "train", "loss").size(), static_cast<size_t>(updates + 2));
}

TEST(T13, ImpossibleBatchNamesTheNearestValidOnes) {
  ExpectOneLineError(
      RunTost(TinyTraining(FreshFolder("run"), {"--global_batch", "64", "--micro_batch", "24"})),
      {"--global_batch 64", "--micro_batch 24", "--micro_batch 16 or 32",
       "--global_batch 48 or 72"});
  const Outcome valid =
      RunTost(TinyTraining(FreshFolder("run"), {"--global_batch", "8", "--micro_batch", "4"}));
  ExpectDone(valid);
  EXPECT_THAT(valid.error, HasSubstr("global batch 8 sequences = 2 micro-steps x 4 sequences"));
}

TEST(T11, PrintedLossDoesNotDependOnTheMicroBatch) {
  std::map<std::string, std::vector<double>> losses;
  for (const std::string micro : {"8", "4", "1"}) {
    const std::string run = FreshFolder("run");
    ExpectDone(RunTost(TinyTraining(run, {"--global_batch", "8", "--micro_batch", micro})));
    losses[micro] = MetricOf(run, "train", "loss");
  }
  // Sums in float32 over the same 128 targets in another order, through four updates.
  constexpr double kSumOrder = 1e-5;
  for (size_t i = 0; i < losses["8"].size(); ++i) {
    EXPECT_NEAR(losses["8"][i], losses["4"][i], kSumOrder);
    EXPECT_NEAR(losses["8"][i], losses["1"][i], kSumOrder);
  }
}

TEST(T14, FirstWarmUpUpdateIsAboveZero) {
  const std::string run = FreshFolder("run");
  ExpectDone(
      RunTost(TinyTraining(run, {"--warmup", "4", "--steps", "12", "--learning_rate", "1e-3"})));
  const std::vector<double> rates = MetricOf(run, "train", "learning_rate");
  ASSERT_EQ(rates.size(), 12u);
  EXPECT_FLOAT_EQ(static_cast<float>(rates[0]), 2.5e-4f);
  EXPECT_FLOAT_EQ(static_cast<float>(rates[3]), 1e-3f);
}

// The official loop: its first update has rate 0 and changes nothing, and it makes one too many.
TEST(O6, OfficialLoopIsFollowedOnRequest) {
  const std::string run = FreshFolder("run");
  ExpectDone(RunTost(
      TinyTraining(run, Words("--official_loop --warmup 4 --steps 12 --learning_rate 1e-3"))));
  const std::vector<double> rates = MetricOf(run, "train", "learning_rate");
  ASSERT_EQ(rates.size(), 13u);
  EXPECT_EQ(rates[0], 0);
  EXPECT_FLOAT_EQ(static_cast<float>(rates[4]), 1e-3f);
}

// Weights and architecture of another run, trained anew from update 1.
TEST(C5, InitStartsFromTheWeightsOfAnotherRun) {
  const std::string first = FreshFolder("first"), second = FreshFolder("second");
  ExpectDone(RunTost(TinyTraining(first, Words("--steps 30 --learning_rate 1e-2"))));
  const std::string checkpoint = Checkpoint(first, "0000030");
  const std::string data = ShakespeareData();
  ExpectDone(RunTost(Words("train language --init " + checkpoint + " --data " + data +
                           " --output " + second + " --steps 0 --global_batch 4")));
  EXPECT_EQ(MetricOf(second, "evaluation", "loss"), MetricOf(first, "evaluation", "loss"));
  ExpectOneLineError(RunTost(Words("train language --init " + checkpoint + " --data " + data +
                                   " --output " + FreshFolder("third") + " --steps 1 --layers 3")),
                     {"--layers 3 against 2", checkpoint});
}

// A digest in the token files says whose ids they are.
TEST(E1, TokensOfAnotherTokenizerAreRefused) {
  const std::string run = FreshFolder("run"), other = FreshFolder("other");
  ExpectDone(RunTost(TinyTraining(run)));
  ExpectDone(RunTost(Words("prepare text --input " TOST_SOURCE_DIR
                           "/data/samples/tinyshakespeare.txt --split tail --output " +
                           other + "/gpt2")));
  // A vocabulary.json of characters beside tokens of byte pairs.
  WriteFile(other + "/gpt2/vocabulary.json", ReadFile(ShakespeareData() + "/vocabulary.json"));
  ExpectOneLineError(RunTost(TinyTraining(FreshFolder("second"),
                                          {"--data", other + "/gpt2", "--vocabulary", "50304"})),
                     {other + "/gpt2", "another", "prepare the text again"});
  ExpectOneLineError(RunTost({"evaluate", "--run", run, "--data", other + "/gpt2"}),
                     {other + "/gpt2"});
}

TEST(D8, MetricsNameEpochAndShard) {
  const std::string run = FreshFolder("run");
  ExpectDone(RunTost(TinyTraining(run)));
  for (const std::string name : {"epoch", "shard"}) {
    const std::vector<double> values = MetricOf(run, "train", name);
    EXPECT_THAT(values, testing::Each(0.0)) << name;
    EXPECT_EQ(values.size(), 4u) << name;
  }
}

TEST(T15, StepsMeansUpdates) {
  const std::string ten = FreshFolder("run");
  ExpectDone(RunTost(TinyTraining(ten, {"--steps", "10"})));
  EXPECT_EQ(MetricOf(ten, "train", "loss").size(), 10u);
  EXPECT_TRUE(std::filesystem::exists(Checkpoint(ten, "0000010")));

  const std::string none = FreshFolder("run");
  const Outcome outcome = RunTost(TinyTraining(none, {"--steps", "0"}));
  ExpectDone(outcome);
  EXPECT_THAT(outcome.error, HasSubstr("after update 0: validation loss"));
  EXPECT_EQ(MetricOf(none, "train", "loss").size(), 0u);
  EXPECT_EQ(MetricOf(none, "evaluation", "loss").size(), 1u);
}

TEST(T18, EveryParameterWithItsDecayGroup) {
  const std::map<std::string, std::vector<std::string>> expected = {
      {"no decay", {"gamma1", "ln_1.weight", "ln_f.weight"}},
      {"decay", {"wte.weight", "wpe.weight", "c_attn.weight", "mlp.c_proj.weight"}}};
  for (const std::string model : {"tost_base", "gpt2_layer_scale"}) {
    const Outcome outcome = RunTost({"inspect", "parameters", "--model", model});
    ExpectDone(outcome);
    for (const auto& [group, names] : expected) {
      for (const std::string& name : names) {
        EXPECT_THAT(outcome.out,
                    testing::ContainsRegex(name + " +\\[[0-9, ]+\\] +" + group + "\n"));
      }
    }
  }
  const Outcome tost_base = RunTost({"inspect", "parameters", "--model", "tost_base"});
  EXPECT_THAT(tost_base.out, testing::ContainsRegex("attn.temp +\\[12, 1\\] +no decay"));
  EXPECT_THAT(tost_base.out,
              testing::ContainsRegex("attn.denom_bias +\\[12, 1024, 1\\] +no decay"));
  EXPECT_THAT(tost_base.out, HasSubstr("total 110,384,016 parameters (109,597,584 without"));
}

TEST(T18, VisionModelsFollowTheSameRule) {
  const std::map<std::string, std::vector<std::string>> expected = {
      {"no decay", {"gamma1", "norm1.weight", "qkv.bias", "cls_token", "proj.0.1.weight"}},
      {"decay", {"proj.0.0.weight", "qkv.weight", "mlp.fc1.weight", "head.weight"}}};
  for (const std::string model : {"tost_cab_tiny_12_p16", "xcit_cab_tiny_12_p16"}) {
    const Outcome outcome = RunTost({"inspect", "parameters", "--model", model});
    ExpectDone(outcome);
    for (const auto& [group, names] : expected) {
      for (const std::string& name : names) {
        EXPECT_THAT(outcome.out,
                    testing::ContainsRegex(name + " +\\[[0-9, ]+\\] +" + group + "\n"));
      }
    }
    EXPECT_THAT(outcome.out, testing::ContainsRegex("attn.temp(erature)? +\\[4, 1.*\\] +no decay"));
    EXPECT_THAT(outcome.out, testing::ContainsRegex("running_var +\\[24\\] +statistic"));
  }
  ExpectDone(RunTost({"inspect", "parameters", "--model", "crate_tiny"}));
  const Outcome models = RunTost({"inspect", "models"});
  ExpectDone(models);
  EXPECT_THAT(models.out, testing::ContainsRegex(
                              "tost_cab_small_12_p16 +12 +8 +384 +224 +16 +1000 +22,589,944"));
}

TEST(T19, EqualSeedsGiveEqualWeights) {
  std::vector<std::string> weights;
  for (const std::string seed : {"7", "7", "8"}) {
    const std::string run = FreshFolder("run");
    ExpectDone(RunTost(TinyTraining(run, {"--steps", "20", "--seed", seed})));
    weights.push_back(TensorBytes(Checkpoint(run, "0000020")));
  }
  EXPECT_TRUE(weights[0] == weights[1]);
  EXPECT_FALSE(weights[0] == weights[2]);
}

// The next letter follows from the last one, whatever the position: seven letters never line up
// with a context of sixteen.
TEST(Learning, PeriodicTextToNearZeroLoss) {
  const std::string folder = FreshFolder("periodic");
  std::string text;
  while (text.size() < 20000) text += "abcdefg";
  WriteFile(folder + "/text.txt", text);
  ExpectDone(
      RunTost({"prepare", "characters", folder + "/text.txt", "--output", folder + "/tokens"}));
  for (const std::string model : {"tost_char", "gpt2_char"}) {
    const std::string run = FreshFolder("run");
    ExpectDone(RunTost(TinyTraining(
        run, Words("--data " + folder + "/tokens --model " + model +
                   " --steps 300 --warmup 20 --learning_rate 1e-2 --global_batch 16"))));
    const std::vector<double> losses = MetricOf(run, "evaluation", "loss");
    ASSERT_EQ(losses.size(), 1u);
    EXPECT_LT(losses[0], 0.05) << model;  // ln 7 = 1.95 without learning
    const Outcome sampled = RunTost(
        {"sample", "--run", run, "--prompt", "abc", "--tokens", "12", "--temperature", "0"});
    EXPECT_EQ(sampled.out, "abcdefgabcdefga\n") << model;
  }
}

TEST(E5, PlainOutputHasNoControlCharacters) {
  const Outcome outcome = RunTost(TinyTraining(FreshFolder("run"), {"--steps", "30"}));
  ExpectDone(outcome);
  for (char c : outcome.error) EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= ' ');
  // One line at the start and one at the end of a run shorter than the interval.
  size_t lines = 0;
  for (size_t at = 0; (at = outcome.error.find("  loss ", at)) != std::string::npos; ++at) ++lines;
  EXPECT_LE(lines, 2u);
}

}  // namespace
}  // namespace tost::acceptance
