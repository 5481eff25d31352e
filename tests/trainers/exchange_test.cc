// Import and export of language models.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/data/test_files.h"
#include "trainers/checkpoint.h"
#include "trainers/export_language.h"
#include "trainers/import_language.h"
#include "trainers/language_layout.h"
#include "trainers/language_run.h"
#include "trainers/torch_file.h"

namespace tost::train {
namespace {

using models::LanguageConfig;
using testing::HasSubstr;

std::string TestFile(const std::string& name) {
  return absl::StrCat(TOST_SOURCE_DIR, "/tests/data/", name);
}

std::vector<float> LogitsOf(const models::LanguageModel& model, const Tensor& ids) {
  models::Pass pass;
  return model.Logits(ids, pass).ToHost();
}

Tensor SomeIds() { return Tensor::FromHost(Shape{1, 5}, std::vector<int32_t>{3, 1, 4, 1, 5}); }

double LargestDifference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, static_cast<double>(std::abs(a[i] - b[i])));
  }
  return largest;
}

using Tensors = std::vector<std::pair<std::string, Tensor>>;

class ExchangeTest : public testing::Test {
 protected:
  // A run of a model whose every parameter is random, so that none can be lost unseen.
  std::string Run(LanguageConfig config, const std::optional<data::Tokenizer>& tokenizer = {}) {
    config.layer_scale = config.layer_scale.has_value() ? std::optional(0.3f) : std::nullopt;
    ParameterSet params(Device::Cpu(), 1);
    const models::LanguageModel model(params.Root(), config);
    params.Finalize();
    for (const Parameter& parameter : params.parameters()) {
      Tensor values = parameter.value();
      float* out = values.mutable_data<float>();
      const RandomKey key{.seed = ++seed_};
      for (int64_t i = 0; i < values.numel(); ++i) out[i] += 0.4f * (Uniform(key, 0, i) - 0.5f);
    }
    const std::string path = folder_.File(absl::StrCat("run", seed_, ".safetensors"));
    CheckpointState state{.extra = {{kModelKey, ToJson(config)}}};
    if (tokenizer.has_value()) state.vocabulary = tokenizer->ToJson();
    EXPECT_TRUE(SaveCheckpoint(path, params, nullptr, state).ok());
    return path;
  }
  static std::vector<float> RunLogits(const std::string& run) {
    return LogitsOf(*LoadLanguageRun(run, DType::kFloat32)->model, SomeIds());
  }
  // The tensors of a file under other names; those named "" are left out.
  template <class Rename>
  Tensors Renamed(const std::string& path, const Rename& rename) {
    const absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Open(path);
    Tensors tensors;
    for (const TensorEntry& entry : file->tensors()) {
      const std::string name = rename(entry.name);
      if (!name.empty()) tensors.emplace_back(name, *file->ReadTensor(entry.name));
    }
    return tensors;
  }

  TemporaryFolder folder_;
  uint64_t seed_ = 0;
};

LanguageConfig Tiny(models::Mixer mixer, bool bias, bool scale) {
  return {.mixer = mixer,
          .layers = 2,
          .heads = 2,
          .width = 8,
          .context = 6,
          .vocabulary = 11,
          .bias = bias,
          .layer_scale = scale ? std::optional(1e-5f) : std::nullopt};
}

TEST_F(ExchangeTest, OfficialFormatRoundTripsBitForBit) {
  for (const models::Mixer mixer : {models::Mixer::kTssa, models::Mixer::kAttention}) {
    for (const bool bias : {false, true}) {
      const std::string run = Run(Tiny(mixer, bias, mixer == models::Mixer::kTssa || bias));
      const std::string output = folder_.File(absl::StrCat("export", seed_));
      ASSERT_TRUE(ExportLanguage({.run = run, .output = output, .check = true}).ok());
      for (const std::string& from : {output, output + "/model.safetensors"}) {
        const absl::StatusOr<ImportedLanguage> imported = ReadLanguageModel({.from = from});
        ASSERT_TRUE(imported.ok()) << imported.status();
        EXPECT_EQ(LogitsOf(*imported->model, SomeIds()), RunLogits(run));
      }
    }
  }
}

// γ ⊙ (W x + b) = (γ ⊙ W) x + γ ⊙ b, up to one rounding of each weight.
TEST_F(ExchangeTest, HuggingFaceFormatRoundTrips) {
  for (const bool bias : {false, true}) {
    for (const bool scale : {false, true}) {
      LanguageConfig config = Tiny(models::Mixer::kAttention, bias, scale);
      config.gelu = scale ? models::GeluForm::kTanh : models::GeluForm::kExact;
      const std::string run = Run(config);
      const std::string output = folder_.File(absl::StrCat("export", seed_));
      ASSERT_TRUE(
          ExportLanguage({.run = run, .output = output, .format = "huggingface", .check = true})
              .ok());
      const absl::StatusOr<ImportedLanguage> imported = ReadLanguageModel({.from = output});
      ASSERT_TRUE(imported.ok()) << imported.status();
      EXPECT_TRUE(imported->config.bias);
      EXPECT_FALSE(imported->config.layer_scale.has_value());
      EXPECT_EQ(imported->config.gelu, config.gelu);
      EXPECT_LE(LargestDifference(LogitsOf(*imported->model, SomeIds()), RunLogits(run)),
                scale ? 2e-6 : 0);
    }
  }
}

// Logits that transformers gives for weights that it has written: transposed layout, biases, order
// of q, k and v, GELU by tanh.
TEST_F(ExchangeTest, HuggingFaceModelGivesTheLogitsOfTransformers) {
  const absl::StatusOr<SafetensorsFile> expected =
      SafetensorsFile::Open(TestFile("huggingface/gpt2_tanh/expected.safetensors"));
  const Tensor ids = *expected->ReadTensor("ids");
  const std::vector<float> logits = expected->ReadTensor("logits")->ToHost();
  const absl::StatusOr<ImportedLanguage> imported =
      ReadLanguageModel({.from = TestFile("huggingface/gpt2_tanh")});
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->config.gelu, models::GeluForm::kTanh);
  // The file alone brings the config.json beside it along.
  EXPECT_TRUE(
      ReadLanguageModel({.from = TestFile("huggingface/gpt2_tanh/model.safetensors")}).ok());
  // Some hundred float32 roundings of logits up to 10.
  EXPECT_LE(LargestDifference(LogitsOf(*imported->model, ids), logits), 1e-5);

  // The other GELU is another function: the comparison would see it.
  LanguageConfig exact = imported->config;
  exact.gelu = models::GeluForm::kExact;
  ParameterSet params(Device::Cpu(), 0);
  const models::LanguageModel other(params.Root(), exact);
  params.Finalize();
  for (const Parameter& parameter : params.parameters()) {
    Tensor target = parameter.value();
    std::ranges::copy(imported->params->Find(parameter.name())->value().ToHost(),
                      target.mutable_data<float>());
  }
  EXPECT_GE(LargestDifference(LogitsOf(other, ids), logits), 1e-4);
}

TEST_F(ExchangeTest, HuggingFaceNamesOfEveryKind) {
  const std::string source = TestFile("huggingface/gpt2_tanh");
  const std::vector<float> logits =
      LogitsOf(*ReadLanguageModel({.from = source})->model, SomeIds());
  Tensors tensors = Renamed(source + "/model.safetensors", [](const std::string& name) {
    return std::string(absl::StripPrefix(name, "transformer."));
  });
  for (const char* block : {"h.0.", "h.1."}) {
    tensors.emplace_back(absl::StrCat(block, "attn.bias"),
                         Tensor::Zeros(Shape{1, 1, 6, 6}, DType::kFloat32));
    tensors.emplace_back(absl::StrCat(block, "attn.masked_bias"), Tensor::Scalar(-1e4));
  }
  const std::string path = folder_.File("bare.safetensors");
  ASSERT_TRUE(WriteSafetensors(path, tensors).ok());
  // Without a config.json the heads must be given; transposed weights speak for gelu_new.
  ExpectOneLine(ReadLanguageModel({.from = path}).status(), {"bare.safetensors", "--heads"});
  const absl::StatusOr<ImportedLanguage> imported = ReadLanguageModel({.from = path, .heads = 2});
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(LogitsOf(*imported->model, SomeIds()), logits);
  EXPECT_THAT(imported->report, testing::Contains(HasSubstr("4 tensors such as h.0.attn.bias")));
}

TEST_F(ExchangeTest, PyTorchCheckpointOfNanoGpt) {
  const absl::StatusOr<ImportedLanguage> imported =
      ReadLanguageModel({.from = TestFile("torch/nanogpt_checkpoint.pt")});
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->config, Tiny(models::Mixer::kAttention, false, false));
  EXPECT_FALSE(imported->tokenizer.has_value());
  for (const char* line : {"nanogpt_checkpoint.pt (PyTorch)", "\"_orig_mod.\" taken off",
                           "lm_head.weight, equal", "2 tensors such as"}) {
    EXPECT_THAT(imported->report, testing::Contains(HasSubstr(line)));
  }
  // An official export of it holds what PyTorch saved.
  const absl::StatusOr<TorchFile> file = TorchFile::Open(TestFile("torch/nanogpt_checkpoint.pt"));
  const absl::StatusOr<std::vector<NamedTorchTensor>> saved = file->StateDict();
  for (const NamedTorchTensor& named : *saved) {
    const std::string name(absl::StripPrefix(named.name, "_orig_mod."));
    const Parameter* parameter = imported->params->Find(name);
    if (parameter == nullptr) continue;  // the head and the masks
    EXPECT_EQ(parameter->value().ToHost(), *file->ReadFloats(named.tensor)) << name;
  }
}

TEST_F(ExchangeTest, PyTorchStateDictOfTost) {
  const absl::StatusOr<ImportedLanguage> imported =
      ReadLanguageModel({.from = TestFile("torch/tost_state.pt")});
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->config, Tiny(models::Mixer::kTssa, false, true));
}

TEST_F(ExchangeTest, HeadOfItsOwnIsRefused) {
  const std::string run = Run(Tiny(models::Mixer::kTssa, false, true));
  Tensors tensors = Renamed(run, [](const std::string& name) { return name; });
  const auto embedding = std::ranges::find(tensors, "transformer.wte.weight",
                                           [](const auto& tensor) { return tensor.first; });
  std::vector<float> head = embedding->second.ToHost();
  const std::string path = folder_.File("head.safetensors");
  tensors.emplace_back("lm_head.weight", Tensor::FromHost(Shape{11, 8}, head));
  ASSERT_TRUE(WriteSafetensors(path, tensors).ok());
  EXPECT_TRUE(ReadLanguageModel({.from = path}).ok());
  head[87] += 1e-3f;
  tensors.back().second = Tensor::FromHost(Shape{11, 8}, head);
  ASSERT_TRUE(WriteSafetensors(path, tensors).ok());
  ExpectOneLine(ReadLanguageModel({.from = path}).status(),
                {"head.safetensors", "lm_head.weight differs from transformer.wte.weight"});
}

TEST_F(ExchangeTest, WeightsMustBeRealNumbers) {
  const std::string run = Run(Tiny(models::Mixer::kTssa, false, true));
  Tensors tensors = Renamed(run, [](const std::string& name) { return name; });
  tensors[3].second = Tensor::Zeros(tensors[3].second.shape(), DType::kInt32);
  const std::string path = folder_.File("integers.safetensors");
  ASSERT_TRUE(WriteSafetensors(path, tensors).ok());
  ExpectOneLine(ReadLanguageModel({.from = path}).status(), {tensors[3].first, "I32"});
}

// Changes one member of the config.json beside a good model.
TEST_F(ExchangeTest, ConfigurationsThatAreNotRead) {
  const std::string source = TestFile("huggingface/gpt2_tanh/");
  const std::string folder = folder_.File("model");
  std::filesystem::create_directory(folder);
  WriteBytes(folder + "/model.safetensors", ReadBytes(source + "model.safetensors"));
  const auto status = [&](const char* key, const nlohmann::json& value) {
    nlohmann::json config = nlohmann::json::parse(ReadBytes(source + "config.json"));
    config[key] = value;
    WriteBytes(folder + "/config.json", config.dump());
    return ReadLanguageModel({.from = folder}).status();
  };
  EXPECT_TRUE(status("n_head", 2).ok());
  EXPECT_TRUE(status("activation_function", "gelu").ok());
  EXPECT_TRUE(status("activation_function", "gelu_pytorch_tanh").ok());
  ExpectOneLine(status("activation_function", "relu"),
                {"config.json", "activation_function", "relu"});
  ExpectOneLine(status("n_head", 4.5), {"config.json", "n_head", "4.5"});
  ExpectOneLine(status("n_layer", 3), {"config.json, n_layer, says layers = 3"});
  ExpectOneLine(status("vocab_size", 50257), {"vocab_size, says vocabulary = 50257"});
  ExpectOneLine(status("layer_norm_epsilon", 1e-6), {"layer_norm_epsilon", "1e-06"});
  ExpectOneLine(status("scale_attn_by_inverse_layer_idx", true), {"inverse_layer_idx"});
  ExpectOneLine(status("scale_attn_weights", nullptr), {"scale_attn_weights", "null"});
  ExpectOneLine(status("model_type", "llama"), {"model_type", "llama"});
  WriteBytes(folder + "/config.json", "{\"model_type\": ");
  ExpectOneLine(ReadLanguageModel({.from = folder}).status(), {"config.json is no JSON object"});
}

TEST_F(ExchangeTest, SourcesThatAreNotRead) {
  ExpectOneLine(ReadLanguageModel({.from = folder_.path()}).status(),
                {folder_.path(), "neither model.safetensors nor pytorch_model.bin"});
  ExpectOneLine(ReadLanguageModel({.from = folder_.File("none.pt")}).status(), {"none.pt"});
  WriteBytes(folder_.File("model.safetensors.index.json"), "{}");
  ExpectOneLine(ReadLanguageModel({.from = folder_.path()}).status(), {"several files"});
  const std::string run = Run(Tiny(models::Mixer::kTssa, false, true));
  ExpectOneLine(ReadLanguageModel({.from = run}).status(), {run, "needs no import"});
}

TEST_F(ExchangeTest, TokenizersTravelWithTheModel) {
  LanguageConfig config = Tiny(models::Mixer::kAttention, false, false);
  config.vocabulary = 50304;
  const std::string gpt2 = Run(config, data::Tokenizer::Gpt2());
  const std::string output = folder_.File("gpt2");
  ASSERT_TRUE(ExportLanguage({.run = gpt2, .output = output, .format = "huggingface"}).ok());
  EXPECT_EQ(ReadBytes(output + "/vocab.json"),
            ReadBytes(absl::StrCat(TOST_SOURCE_DIR, "/data/gpt2/encoder.json")));
  EXPECT_EQ(ReadBytes(output + "/merges.txt"),
            ReadBytes(absl::StrCat(TOST_SOURCE_DIR, "/data/gpt2/vocab.bpe")));
  const auto settings = nlohmann::json::parse(ReadBytes(output + "/config.json"));
  EXPECT_EQ(settings["eos_token_id"], 50256);
  const auto tokenizer = nlohmann::json::parse(ReadBytes(output + "/tokenizer_config.json"));
  EXPECT_EQ(tokenizer["eos_token"], "<|endoftext|>");
  const absl::StatusOr<ImportedLanguage> imported = ReadLanguageModel({.from = output});
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->tokenizer->name(), "gpt2");

  // Without tables and without a word GPT-2's tokenizer is assumed from the size, aloud.
  std::filesystem::remove(output + "/merges.txt");
  const absl::StatusOr<ImportedLanguage> assumed = ReadLanguageModel({.from = output});
  EXPECT_EQ(assumed->tokenizer->name(), "gpt2");
  EXPECT_THAT(assumed->report,
              testing::Contains(HasSubstr("gpt2, assumed for a vocabulary of 50304")));
  EXPECT_FALSE(ReadLanguageModel({.from = output, .tokenizer = "none"})->tokenizer.has_value());

  const auto characters =
      data::Tokenizer::OfCharacters(data::CharacterVocabulary::Of(U"abcdefghijk"));
  const std::string text = Run(Tiny(models::Mixer::kTssa, false, true), characters);
  const std::string folder = folder_.File("characters");
  ASSERT_TRUE(ExportLanguage({.run = text, .output = folder}).ok());
  EXPECT_EQ(ReadLanguageModel({.from = folder})->tokenizer->ToJson(), characters.ToJson());
  EXPECT_EQ(ReadLanguageModel({.from = TestFile("torch/tost_state.pt"), .tokenizer = folder})
                ->tokenizer->ToJson(),
            characters.ToJson());
  ExpectOneLine(ReadLanguageModel({.from = folder, .tokenizer = "gpt2"}).status(),
                {"no room for the 50257 tokens of gpt2"});
}

TEST_F(ExchangeTest, ImportedRunIsEvaluatedLikeAnyOther) {
  const std::string output = folder_.File("run");
  ASSERT_TRUE(ImportLanguage({.from = TestFile("torch/tost_state.pt"), .output = output}).ok());
  const absl::StatusOr<LanguageRun> run = LoadLanguageRun(output, DType::kFloat32);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->checkpoint, output + "/checkpoints/checkpoint_0000000.safetensors");
  EXPECT_EQ(
      LogitsOf(*run->model, SomeIds()),
      LogitsOf(*ReadLanguageModel({.from = TestFile("torch/tost_state.pt")})->model, SomeIds()));
  ExpectOneLine(ImportLanguage({.from = TestFile("torch/tost_state.pt"), .output = output}),
                {output, "not empty"});
  EXPECT_TRUE(
      ImportLanguage(
          {.from = TestFile("torch/nanogpt_checkpoint.pt"), .output = output, .overwrite = true})
          .ok());
  EXPECT_EQ(LoadLanguageRun(output, DType::kFloat32)->config.mixer, models::Mixer::kAttention);
}

TEST_F(ExchangeTest, ExportsThatCannotBe) {
  const std::string tost = Run(Tiny(models::Mixer::kTssa, false, true));
  const std::string output = folder_.File("export");
  ExpectOneLine(ExportLanguage({.run = tost, .output = output, .format = "huggingface"}),
                {tost, "--format official"});
  ExpectOneLine(ExportLanguage({.run = tost, .output = output, .format = "onnx"}), {"onnx"});
  ExpectOneLine(ExportLanguage({.run = tost, .output = output, .dtype = "float16"}), {"float16"});
  EXPECT_FALSE(std::filesystem::exists(output));
  ASSERT_TRUE(ExportLanguage({.run = tost, .output = output}).ok());
  ExpectOneLine(ExportLanguage({.run = tost, .output = output}), {output, "not empty"});
  // What an earlier export left is not taken for the new one's.
  WriteBytes(output + "/vocabulary.json", "old");
  WriteBytes(output + "/notes.txt", "mine");
  EXPECT_TRUE(
      ExportLanguage({.run = tost, .output = output, .check = true, .overwrite = true}).ok());
  EXPECT_FALSE(std::filesystem::exists(output + "/vocabulary.json"));
  EXPECT_TRUE(std::filesystem::exists(output + "/notes.txt"));
  WriteBytes(folder_.File("file"), "x");
  ExpectOneLine(ExportLanguage({.run = tost, .output = folder_.File("file")}), {"is a file"});
}

TEST_F(ExchangeTest, BFloat16ExportRoundsEachWeightOnce) {
  const std::string run = Run(Tiny(models::Mixer::kTssa, false, true));
  const std::string output = folder_.File("export");
  ASSERT_TRUE(
      ExportLanguage({.run = run, .output = output, .dtype = "bfloat16", .check = true}).ok());
  const absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Open(output + "/model.safetensors");
  const absl::StatusOr<LanguageRun> loaded = LoadLanguageRun(run, DType::kFloat32);
  for (const TensorEntry& entry : file->tensors()) {
    EXPECT_EQ(entry.dtype, "BF16");
    EXPECT_EQ(*file->ReadFloats(entry),
              Converted(loaded->params->Find(entry.name)->value(), DType::kBFloat16).ToHost());
  }
}

TEST(LanguageConfigJson, GeluIsKeptAndItsAbsenceMeansExact) {
  LanguageConfig config = Tiny(models::Mixer::kAttention, true, false);
  config.gelu = models::GeluForm::kTanh;
  EXPECT_EQ(*LanguageConfigFromJson(ToJson(config), "x"), config);
  config.gelu = models::GeluForm::kExact;
  const std::string older = absl::StrReplaceAll(ToJson(config), {{"\"gelu\":\"exact\",", ""}});
  EXPECT_NE(older, ToJson(config));
  EXPECT_EQ(*LanguageConfigFromJson(older, "x"), config);
  ExpectOneLine(
      LanguageConfigFromJson(absl::StrReplaceAll(ToJson(config), {{"exact", "relu"}}), "x")
          .status(),
      {"x: unknown gelu", "relu"});
}

}  // namespace
}  // namespace tost::train
