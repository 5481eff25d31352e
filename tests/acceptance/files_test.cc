// Acceptance of checkpoints, tensor files and metrics; the names are those of the acceptance
// statements.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/language_model.h"
#include "tests/data/test_files.h"
#include "trainers/checkpoint.h"
#include "trainers/metrics.h"

namespace tost::train {
namespace {

// Sets every value of the model to the number of the update, so that a mixture of two checkpoints
// would be seen.
void SetAll(ParameterSet& params, int64_t update) {
  for (Bucket& bucket : params.buckets()) {
    std::fill_n(bucket.values.mutable_data<float>(), bucket.values.numel(),
                static_cast<float>(update));
  }
}

absl::Status SaveUpdate(const std::string& folder, ParameterSet& params, int64_t update) {
  SetAll(params, update);
  return SaveCheckpoint(absl::StrCat(folder, "/", CheckpointName(update)), params, nullptr,
                        {.update = update});
}

// Saves one checkpoint after the other until it is killed.
[[noreturn]] void SaveForever(const std::string& folder, ParameterSet& params, int64_t update) {
  while (true) {
    const bool saved =
        SaveUpdate(folder, params, ++update).ok() && PruneCheckpoints(folder, 3).ok();
    if (!saved) _exit(1);
  }
}

// Update of the newest checkpoint, whose values must all be that number.
int64_t LoadNewest(const std::string& folder, ParameterSet& params) {
  const absl::StatusOr<std::string> newest = NewestCheckpoint(folder);
  EXPECT_TRUE(newest.ok()) << newest.status();
  const absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(*newest);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_TRUE(checkpoint->LoadWeights(params).ok());
  const int64_t update = checkpoint->State()->update;
  for (const Parameter& parameter : params.parameters()) {
    for (const float value : parameter.value().ToHost()) {
      if (value != static_cast<float>(update)) {
        ADD_FAILURE() << *newest << " holds " << value;
        return update;
      }
    }
  }
  return update;
}

TEST(C1, NewestCheckpointLoadsAfterFiftyKills) {
  constexpr int kKills = 50;
  constexpr int kLongestMicroseconds = 20000;  // several saves
  TemporaryFolder folder;
  ParameterSet params(Device::Cpu(), 1);
  for (const char* name : {"a", "b"})
    params.Root().Add(name, {256, 256}, Init::Zeros(), Decay::kYes);
  params.Finalize();
  ASSERT_TRUE(SaveUpdate(folder.path(), params, 0).ok());
  std::mt19937 random(1);
  std::uniform_int_distribution<useconds_t> delay(0, kLongestMicroseconds);
  int64_t update = 0;
  int interrupted = 0;
  for (int kill_number = 0; kill_number < kKills; ++kill_number) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) SaveForever(folder.path(), params, update);
    usleep(delay(random));
    kill(child, SIGKILL);
    int outcome = 0;
    ASSERT_EQ(waitpid(child, &outcome, 0), child);
    ASSERT_TRUE(WIFSIGNALED(outcome)) << "a save failed";
    for (const std::string& name : folder.Names()) interrupted += absl::EndsWith(name, ".tmp");
    const int64_t newest = LoadNewest(folder.path(), params);
    EXPECT_GE(newest, update);
    update = newest;
  }
  EXPECT_GT(interrupted, 0) << "no kill met a save; the test shows nothing";
  EXPECT_GT(update, 0);
}

TEST(C10, TieSurvivesExportAndImport) {
  const models::LanguageConfig config{
      .layers = 1, .heads = 2, .width = 8, .context = 8, .vocabulary = 11};
  const Tensor tokens = Tensor::FromHost(Shape{1, 3}, std::vector<int32_t>{1, 2, 3});
  TemporaryFolder folder;
  const std::string path = folder.File("model.safetensors");
  std::vector<float> exported_logits;
  {
    ParameterSet params(Device::Cpu(), 1);
    const models::LanguageModel model(params.Root(), config);
    params.Finalize();
    models::Pass pass;
    exported_logits = model.Logits(tokens, pass).ToHost();
    ASSERT_TRUE(SaveCheckpoint(path, params, nullptr, {}).ok());
  }
  const absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(path);
  EXPECT_EQ(checkpoint->file().Find("lm_head.weight"), nullptr);
  EXPECT_EQ(checkpoint->file().metadata().at("tied"), "lm_head.weight=transformer.wte.weight");

  ParameterSet params(Device::Cpu(), 2);
  const models::LanguageModel model(params.Root(), config);
  params.Finalize();
  ASSERT_TRUE(checkpoint->LoadWeights(params).ok());
  models::Pass pass;
  EXPECT_EQ(model.Logits(tokens, pass).ToHost(), exported_logits);

  // Row 7 of the embedding is no input here: it can reach the logits through the head only.
  Tensor row = params.Find("transformer.wte.weight")->value().Slice(7, 1);
  row.mutable_data<float>()[0] += 1;
  const std::vector<float> changed = model.Logits(tokens, pass).ToHost();
  for (size_t i = 0; i < changed.size(); ++i) {
    EXPECT_EQ(changed[i] != exported_logits[i], i % 11 == 7) << i;
  }
}

TEST(C11, DamagedTensorFilesEachHaveTheirOwnLine) {
  TemporaryFolder folder;
  const std::string path = folder.File("x.safetensors");
  const auto message = [&](const std::string& bytes) {
    WriteBytes(path, bytes);
    const absl::Status status = SafetensorsFile::Open(path).status();
    ExpectOneLine(status, {path});
    return std::string(status.message());
  };
  const auto file = [](const std::string& a, const std::string& b) {
    const std::string json =
        absl::StrCat(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":)", a,
                     R"(},"b":{"dtype":"F32","shape":[2],"data_offsets":)", b, "}}");
    return BytesOf<uint64_t>({json.size()}) + json + std::string(16, '\0');
  };
  const std::string good = file("[0,8]", "[8,16]");
  WriteBytes(path, good);
  ASSERT_TRUE(SafetensorsFile::Open(path).ok());
  const std::set<std::string> messages{
      message(std::string(8, '\xFF')),          message(file("[0,8]", "[4,12]")),
      message(file("[0,8]", "[12,20]")),        message(file("[0,8]", "[8,12]")),
      message(good.substr(0, good.size() - 1)), message(good + "x")};
  EXPECT_EQ(messages.size(), 6u);
}

TEST(E6, LogReaderShowsEachUpdateOnceAfterACrash) {
  TemporaryFolder folder;
  const std::string path = folder.File("metrics.jsonl");
  const auto train = [&](int64_t first, int64_t last) {
    absl::StatusOr<MetricsWriter> writer = MetricsWriter::Open(path);
    for (int64_t update = first; update <= last; ++update) {
      ASSERT_TRUE(writer->Write({update, "train", {{"first", static_cast<double>(first)}}}).ok());
    }
  };
  train(1, 15);  // crashes; its checkpoint is of update 10
  train(11, 20);
  const absl::StatusOr<std::vector<MetricsRecord>> records = ReadMetrics(path);
  ASSERT_EQ(records->size(), 20u);
  for (size_t i = 0; i < records->size(); ++i) {
    EXPECT_EQ((*records)[i].update, static_cast<int64_t>(i) + 1);
    EXPECT_EQ((*records)[i].Get("first"), i < 10 ? 1 : 11);
  }
}

}  // namespace
}  // namespace tost::train
