// Import and export as a user meets them.
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/acceptance/run_tost.h"
#include "trainers/safetensors.h"

namespace tost::acceptance {
namespace {

using testing::HasSubstr;
using train::SafetensorsFile;

std::string PyTorchFile(const std::string& name) {
  return absl::StrCat(TOST_SOURCE_DIR, "/tests/data/torch/", name);
}

void ExpectDone(const Outcome& outcome) { EXPECT_EQ(outcome.exit_code, 0) << outcome.error; }

// A trained tiny run and its official export.
struct Exported {
  std::string run = FreshFolder("run");
  std::string output = FreshFolder("export");
  explicit Exported(const std::vector<std::string>& training = {},
                    const std::vector<std::string>& options = {}) {
    ExpectDone(RunTost(TinyTraining(run, training)));
    std::vector<std::string> arguments{"export", "--run", run, "--output", output};
    arguments.insert(arguments.end(), options.begin(), options.end());
    outcome = RunTost(arguments);
    ExpectDone(outcome);
  }
  Outcome outcome;
};

// Copies a safetensors file with other names for its tensors.
template <class Rename>
void CopyRenamed(const std::string& from, const std::string& to, const Rename& rename) {
  const absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Open(from);
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const train::TensorEntry& entry : file->tensors()) {
    tensors.emplace_back(rename(entry.name), *file->ReadTensor(entry.name));
  }
  ASSERT_TRUE(train::WriteSafetensors(to, tensors).ok());
}

std::string LossOf(const std::string& run, const std::string& data) {
  const Outcome outcome = RunTost({"evaluate", "--run", run, "--data", data});
  ExpectDone(outcome);
  const size_t at = outcome.out.find("loss ");
  return outcome.out.substr(at, outcome.out.find('\n', at) - at);
}

TEST(C5, FlagThatContradictsTheSourceIsOneLine) {
  ExpectOneLineError(RunTost({"import", "--from", PyTorchFile("tost_state.pt"), "--output",
                              FreshFolder("run"), "--heads", "4"}),
                     {"tost_state.pt", "--heads says heads = 4, but the tensors say 2"});
  ExpectOneLineError(RunTost({"import", "--from", PyTorchFile("nanogpt_checkpoint.pt"), "--output",
                              FreshFolder("run"), "--heads", "4"}),
                     {"model_args, n_head, says heads = 2, but --heads says 4"});
}

TEST(C8, ImportListsAllFaultsAndStops) {
  const Exported exported;
  const std::string folder = FreshFolder("renamed");
  CopyRenamed(exported.output + "/model.safetensors", folder + "/renamed.safetensors",
              [](const std::string& name) {
                return absl::EndsWith(name, "h.1.ln_2.weight") ? "transformer.h.1.ln_3.weight"
                                                               : name;
              });
  const std::string run = folder + "/run";
  ExpectOneLineError(
      RunTost({"import", "--from", folder + "/renamed.safetensors", "--output", run}),
      {"renamed.safetensors", "1 missing (transformer.h.1.ln_2.weight)",
       "1 unexpected (transformer.h.1.ln_3.weight)"});
  CopyRenamed(exported.output + "/model.safetensors", folder + "/wrapped.safetensors",
              [](const std::string& name) { return "module." + name; });
  const Outcome wrapped =
      RunTost({"import", "--from", folder + "/wrapped.safetensors", "--output", run});
  ExpectDone(wrapped);
  EXPECT_THAT(wrapped.out, HasSubstr("\"module.\" taken off"));
}

TEST(C8, ImportOfAnImageClassifierListsAllFaultsAndStops) {
  const std::string first = FreshFolder("run"), folder = FreshFolder("export");
  const Outcome imported =
      RunTost({"import", "--from", PyTorchFile("vision_checkpoint.pth"), "--output", first});
  ExpectDone(imported);
  EXPECT_THAT(imported.out, HasSubstr("\"module.\" taken off"));
  ExpectDone(RunTost({"export", "--run", first, "--output", folder}));
  CopyRenamed(folder + "/model.safetensors", folder + "/renamed.safetensors",
              [](const std::string& name) { return name == "head.bias" ? "head.offset" : name; });
  const std::string run = folder + "/run";
  ExpectOneLineError(
      RunTost({"import", "--from", folder + "/renamed.safetensors", "--output", run}),
      {"renamed.safetensors", "1 missing (head.bias)", "1 unexpected (head.offset)"});
  EXPECT_FALSE(std::filesystem::exists(run));
}

TEST(C12, CheckedExportOfAnImageClassifier) {
  const std::string run = FreshFolder("run"), output = FreshFolder("export");
  ExpectDone(RunTost({"import", "--from", PyTorchFile("vision_checkpoint.pth"), "--output", run,
                      "--image_size", "32"}));
  const Outcome outcome = RunTost({"export", "--run", run, "--output", output, "--check"});
  ExpectDone(outcome);
  EXPECT_THAT(outcome.out, HasSubstr("maximum logit difference 0.00e+00"));
  EXPECT_THAT(ReadFile(output + "/config.json"), HasSubstr("\"image_size\":32"));
}

TEST(C10, TieSurvivesExportAndImportByTheProgram) {
  const Exported exported;
  const absl::StatusOr<SafetensorsFile> file =
      SafetensorsFile::Open(exported.output + "/model.safetensors");
  EXPECT_EQ(file->Find("lm_head.weight"), nullptr);
  EXPECT_EQ(file->metadata().at("tied"), "lm_head.weight=transformer.wte.weight");
  const std::string again = FreshFolder("again");
  ExpectDone(RunTost({"import", "--from", exported.output, "--output", again}));
  const std::string data = ShakespeareData();
  EXPECT_EQ(LossOf(again, data), LossOf(exported.run, data));
  // PyTorch's file holds the head a second time; what is imported has it once.
  const std::string torch = FreshFolder("torch");
  ExpectDone(RunTost({"import", "--from", PyTorchFile("tost_state.pt"), "--output", torch}));
  const absl::StatusOr<SafetensorsFile> imported =
      SafetensorsFile::Open(torch + "/checkpoints/checkpoint_0000000.safetensors");
  EXPECT_EQ(imported->Find("lm_head.weight"), nullptr);
  EXPECT_EQ(imported->metadata().at("tied"), "lm_head.weight=transformer.wte.weight");
}

TEST(C12, CheckedExportOfOneLayer) {
  struct Case {
    std::string model, format;
  };
  for (const Case& one :
       {Case{"tost_char", "official"}, Case{"gpt2_char", "official"},
        Case{"gpt2_char", "huggingface"}, Case{"gpt2_char_layer_scale", "huggingface"}}) {
    const Exported exported({"--model", one.model, "--layers", "1"},
                            {"--format", one.format, "--check"});
    for (const char* name : {"model.safetensors", "config.json", "vocabulary.json"}) {
      EXPECT_FALSE(ReadFile(absl::StrCat(exported.output, "/", name)).empty()) << name;
    }
    const std::string before = "maximum logit difference ";
    const size_t at = exported.outcome.out.find(before);
    ASSERT_NE(at, std::string::npos) << exported.outcome.out;
    const std::string rest = exported.outcome.out.substr(at + before.size());
    double difference = 1;
    ASSERT_TRUE(absl::SimpleAtod(rest.substr(0, rest.find(' ')), &difference)) << rest;
    EXPECT_LE(difference, 1e-6) << one.model << ", " << one.format;
  }
}

TEST(L5, ImportedAndExportedModelsGoOn) {
  const std::string run = FreshFolder("imported"), tuned = FreshFolder("tuned");
  const std::string output = FreshFolder("export");
  const Exported exported({"--model", "gpt2_char"}, {"--format", "huggingface"});
  ExpectDone(RunTost({"import", "--from", exported.output, "--output", run}));
  const Outcome sampled = RunTost({"sample", "--run", run, "--prompt", "The", "--tokens", "9"});
  ExpectDone(sampled);
  EXPECT_EQ(sampled.out.size(), 3u + 9u + 1u);
  ExpectDone(RunTost({"train", "language", "--data", ShakespeareData(), "--init", run, "--output",
                      tuned, "--steps", "2", "--global_batch", "4"}));
  ExpectDone(RunTost({"export", "--run", tuned, "--output", output, "--check"}));
}

TEST(E1, MistakesOfImportAndExportAreOneLine) {
  const std::string folder = FreshFolder("inputs");
  const std::string run = folder + "/run";
  const auto import = [&](const std::string& from) {
    return RunTost({"import", "--from", from, "--output", run});
  };
  ExpectOneLineError(RunTost({"import"}), {"--from"});
  ExpectOneLineError(import(folder + "/none.pt"), {"none.pt"});
  ExpectOneLineError(import(folder), {folder, "neither"});
  ExpectOneLineError(import(PyTorchFile("legacy.pt")), {"before 1.6", "torch.save"});
  ExpectOneLineError(import(PyTorchFile("module.pt")), {"torch.nn.modules.container.Sequential"});
  ExpectOneLineError(import(PyTorchFile("every_type.pt")), {"no language model"});
  WriteFile(folder + "/cut.pt", ReadFile(PyTorchFile("tost_state.pt")).substr(0, 5000));
  ExpectOneLineError(import(folder + "/cut.pt"), {"cut.pt", "copy or save it again"});
  ExpectOneLineError(RunTost({"export", "--run", folder + "/none", "--output", run}), {"/none"});
  ExpectOneLineError(RunTost({"import", "--from", PyTorchFile("tost_state.pt"), "--output", run,
                              "--tokenizer", folder + "/none"}),
                     {folder + "/none"});
}

}  // namespace
}  // namespace tost::acceptance
