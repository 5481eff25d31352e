// Import and export of image classifiers.
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"
#include "trainers/export_vision.h"
#include "trainers/import_model.h"
#include "trainers/import_vision.h"
#include "trainers/vision_run.h"

namespace tost::train {
namespace {

using models::CrateConfig;
using models::ImageClassifierConfig;
using models::VisionConfig;
using models::VisionMixer;
using testing::Contains;
using testing::HasSubstr;

const std::vector<std::string> kNames{"cat", "\u0434\u043e\u043c \"2\"", "dog\nhouse"};

std::vector<ImageClassifierConfig> Kinds() {
  std::vector<ImageClassifierConfig> kinds;
  for (const VisionMixer mixer :
       {VisionMixer::kTssa, VisionMixer::kAttention, VisionMixer::kCrossCovariance}) {
    kinds.push_back(VisionConfig{.mixer = mixer,
                                 .image_size = 16,
                                 .patch = 4,
                                 .width = 8,
                                 .depth = 2,
                                 .heads = 2,
                                 .class_blocks = 1,
                                 .layer_scale = 0.5f,
                                 .classes = 3});
  }
  kinds.push_back(VisionConfig{.feed_forward = models::FeedForward::kIsta,
                               .normalized_memberships = false,
                               .image_size = 16,
                               .patch = 8,
                               .width = 8,
                               .depth = 1,
                               .heads = 4,
                               .normalize_all_tokens = false,
                               .classes = 3});
  kinds.push_back(CrateConfig{.image_size = 12,
                              .patch = 3,
                              .width = 8,
                              .depth = 2,
                              .heads = 2,
                              .classes = 3,
                              .step = 0.2,
                              .sparsity = 0.05});
  return kinds;
}

class VisionExchange : public testing::Test {
 protected:
  // A run whose every parameter and state is random, so that none can be lost unseen.
  std::string Run(const ImageClassifierConfig& config) {
    ParameterSet params(Device::Cpu(), 1);
    const models::ImageClassifier model(params.Root(), config);
    params.Finalize();
    for (const Parameter& parameter : params.parameters()) Shake(parameter.value());
    for (const State& state : params.states()) Shake(state.value());
    const std::string path = folder_.File(absl::StrCat("run", seed_, ".safetensors"));
    const CheckpointState state{
        .update = 12,
        .extra = {{kModelKey, ToJson(config)}, {kClassesKey, ClassNamesToJson(kNames)}}};
    EXPECT_TRUE(SaveCheckpoint(path, params, nullptr, state).ok());
    return path;
  }
  void Shake(Tensor values) {
    float* out = values.mutable_data<float>();
    const RandomKey key{.seed = ++seed_};
    for (int64_t i = 0; i < values.numel(); ++i) out[i] += 0.4f * (Uniform(key, 0, i) - 0.5f);
  }

  std::string Export(const std::string& run, const std::string& dtype = "float32") {
    const std::string output = folder_.File(absl::StrCat("export", ++seed_));
    const absl::Status status =
        ExportModel({.run = run, .output = output, .dtype = dtype, .check = true});
    EXPECT_TRUE(status.ok()) << status;
    return output;
  }

  static void ExpectEqual(const VisionRun& run, const ImportedVision& imported) {
    EXPECT_EQ(imported.config, run.config);
    for (const Parameter& parameter : run.params->parameters()) {
      EXPECT_EQ(imported.params->Find(parameter.name())->value().ToHost(),
                parameter.value().ToHost())
          << parameter.name();
    }
    for (size_t i = 0; i < run.params->states().size(); ++i) {
      EXPECT_EQ(imported.params->states()[i].value().ToHost(),
                run.params->states()[i].value().ToHost());
    }
  }

  TemporaryFolder folder_;
  uint64_t seed_ = 0;
};

TEST_F(VisionExchange, ExportsComeBackBitForBit) {
  for (const ImageClassifierConfig& config : Kinds()) {
    SCOPED_TRACE(ToJson(config));
    const std::string path = Run(config);
    const absl::StatusOr<VisionRun> run = LoadVisionRun(path, DType::kFloat32);
    ASSERT_TRUE(run.ok()) << run.status();
    const std::string output = Export(path);
    for (const std::string& from : {output, output + "/model.safetensors"}) {
      const absl::StatusOr<ImportedVision> imported = ReadVisionModel({.from = from});
      ASSERT_TRUE(imported.ok()) << imported.status();
      ExpectEqual(*run, *imported);
      EXPECT_EQ(imported->class_names, kNames);
    }
  }
}

TEST_F(VisionExchange, AnImportIsARun) {
  const std::string output = Export(Run(Kinds()[0]));
  const std::string run = folder_.File("imported");
  ASSERT_TRUE(ImportModel({.from = output, .output = run}).ok());
  const absl::StatusOr<VisionRun> loaded = LoadVisionRun(run, DType::kFloat32);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->config, Kinds()[0]);
  EXPECT_EQ(loaded->class_names, kNames);
}

// What load_state_dict(…, strict=True) of the official code asks for.
TEST_F(VisionExchange, CountersOfBatchNormAreWritten) {
  const std::string output = Export(Run(Kinds()[0]), "bfloat16");
  const absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Open(output + "/model.safetensors");
  ASSERT_TRUE(file.ok());
  for (const char* stage : {"0", "2"}) {
    const std::string norm = absl::StrCat("patch_embed.proj.", stage, ".1.");
    const TensorEntry* counter = file->Find(norm + "num_batches_tracked");
    ASSERT_NE(counter, nullptr) << stage;
    EXPECT_TRUE(counter->shape.empty());
    EXPECT_THAT(*file->ReadIntegers(*counter), testing::ElementsAre(12));
    EXPECT_EQ(file->Find(norm + "running_var")->dtype, "F32");
    EXPECT_EQ(file->Find(norm + "weight")->dtype, "BF16");
  }
}

// Every tensor N of the file is (index − 3) / 4, or its absolute value for variances.
TEST_F(VisionExchange, ACheckpointOfPyTorchIsRead) {
  const std::string path = absl::StrCat(TOST_SOURCE_DIR, "/tests/data/torch/vision_checkpoint.pth");
  const absl::StatusOr<ImportedVision> imported = ReadVisionModel({.from = path, .image_size = 32});
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->config, ImageClassifierConfig(VisionConfig{.image_size = 32,
                                                                 .patch = 8,
                                                                 .width = 8,
                                                                 .depth = 1,
                                                                 .heads = 2,
                                                                 .class_blocks = 1,
                                                                 .classes = 3}));
  const auto expect = [](const std::string& name, const Tensor& tensor) {
    const std::vector<float> values = tensor.ToHost();
    for (size_t i = 0; i < values.size(); ++i) {
      const float value = (static_cast<float>(i) - 3) / 4;
      ASSERT_EQ(values[i], absl::EndsWith(name, "running_var") ? std::abs(value) : value) << name;
    }
  };
  for (const Parameter& parameter : imported->params->parameters()) {
    expect(parameter.name(), parameter.value());
  }
  for (const State& state : imported->params->states()) expect(state.name(), state.value());
  EXPECT_THAT(imported->report, Contains(HasSubstr("\"module.\" taken off all names")));
  EXPECT_THAT(imported->report, Contains(HasSubstr("3 counters num_batches_tracked")));
}

TEST_F(VisionExchange, OptionsOfLanguageModelsAndBrokenNamesAreRefused) {
  const std::string output = Export(Run(Kinds()[0]));
  ExpectOneLine(ReadVisionModel({.from = output, .tokenizer = "gpt2"}).status(),
                {"--tokenizer is for language models", output});
  ExpectOneLine(
      ImportModel({.from = absl::StrCat(TOST_SOURCE_DIR, "/tests/data/torch/tost_state.pt"),
                   .output = folder_.File("x"),
                   .image_size = 32}),
      {"--image_size is for image classifiers", "tost_state.pt"});
  ExpectOneLine(
      ExportModel({.run = Run(Kinds()[0]), .output = folder_.File("y"), .format = "huggingface"}),
      {"image classifier", "--format is official"});
  WriteBytes(output + "/classes.json", "[\"cat\"]");
  ExpectOneLine(ReadVisionModel({.from = output}).status(),
                {"classes.json is no JSON list of the names of 3 classes"});
}

TEST_F(VisionExchange, AModelWhoseLogitsAreNoNumbersFailsTheCheck) {
  const std::vector<float> nothing{NAN, 1}, something{0, 1};
  EXPECT_FALSE(CompareLogits(nothing, nothing, DType::kFloat32, "x").ok());
  EXPECT_TRUE(CompareLogits(something, something, DType::kFloat32, "x").ok());
}

}  // namespace
}  // namespace tost::train
