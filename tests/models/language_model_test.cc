#include "models/language_model.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "autograd/tape.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/variants.h"

namespace tost::models {
namespace {

int64_t ParameterCount(const LanguageConfig& config) {
  ParameterSet params(Device::Cpu(), 0);
  const LanguageModel model(params.Root(), config);
  return params.element_count();
}

// Counts of the official code, V = 50304, context 1024.
TEST(LanguageVariants, ParameterCountsOfTheReference) {
  const std::map<std::string, int64_t> expected = {{"tost_base", 110384016},
                                                   {"tost_medium", 304711040},
                                                   {"tost_large", 656447440},
                                                   {"tost_xl", 1312463600},
                                                   {"gpt2", 124373760},
                                                   {"gpt2_medium", 354599936},
                                                   {"gpt2_large", 773582080},
                                                   {"gpt2_xl", 1556840000},
                                                   {"gpt2_layer_scale", 124392192},
                                                   {"gpt2_medium_layer_scale", 354649088},
                                                   {"gpt2_large_layer_scale", 773674240},
                                                   {"gpt2_xl_layer_scale", 1556993600}};
  for (const auto& [name, count] : expected) {
    const auto config = LanguageVariant(name);
    ASSERT_TRUE(config.ok()) << name;
    EXPECT_EQ(ParameterCount(*config), count) << name;
  }
}

TEST(LanguageVariants, ParameterCountsWithBiases) {
  const std::map<std::string, int64_t> expected = {{"tost_base", 110467728},
                                                   {"tost_medium", 304933248},
                                                   {"tost_large", 656863440},
                                                   {"gpt2", 124475904},
                                                   {"gpt2_xl", 1557686400}};
  for (const auto& [name, count] : expected) {
    LanguageConfig config = *LanguageVariant(name);
    config.bias = true;
    EXPECT_EQ(ParameterCount(config), count) << name;
  }
  LanguageConfig openai = *LanguageVariant("gpt2");
  openai.bias = true;
  openai.vocabulary = 50257;
  EXPECT_EQ(ParameterCount(openai), 124439808);
}

TEST(LanguageVariants, UnknownNameListsTheKnownOnes) {
  const auto config = LanguageVariant("tost_bass");
  ASSERT_FALSE(config.ok());
  EXPECT_THAT(std::string(config.status().message()), testing::HasSubstr("tost_base"));
}

LanguageConfig Tiny(Mixer mixer) {
  return {.mixer = mixer,
          .layers = 2,
          .heads = 3,
          .width = 24,
          .context = 140,
          .vocabulary = 31,
          .bias = true,
          .layer_scale = 0.7f};
}

TEST(LanguageModel, OfficialNamesAndDecayGroups) {
  ParameterSet params(Device::Cpu(), 0);
  const LanguageModel model(params.Root(), Tiny(Mixer::kTssa));
  std::vector<std::string> decayed, others;
  for (const Parameter& parameter : params.parameters()) {
    (parameter.decay() == Decay::kYes ? decayed : others).push_back(parameter.name());
  }
  using testing::IsSupersetOf;
  EXPECT_THAT(decayed, IsSupersetOf({"transformer.wte.weight", "transformer.wpe.weight",
                                     "transformer.h.1.attn.c_attn.weight",
                                     "transformer.h.1.mlp.c_proj.weight"}));
  EXPECT_THAT(others, IsSupersetOf({"transformer.h.0.gamma1", "transformer.h.0.attn.temp",
                                    "transformer.h.0.attn.denom_bias", "transformer.ln_f.weight",
                                    "transformer.h.1.mlp.c_fc.bias"}));
  EXPECT_EQ(decayed.size(), 2u + 2u * 4u);
}

// c_proj as the first columns of the identity shows GELU(c_fc(x)) of one channel; values of both
// forms from their formulas in float64.
TEST(Mlp, BothFormsOfGelu) {
  for (const GeluForm form : {GeluForm::kExact, GeluForm::kTanh}) {
    ParameterSet params(Device::Cpu(), 0);
    const Mlp mlp(params.Root(), 1, {.bias = true, .gelu = form});
    params.Finalize();
    for (const auto& [name, values] :
         std::map<std::string, std::vector<float>>{{"c_fc.weight", {1, 0, 0, 0}},
                                                   {"c_fc.bias", {0, 0, 0, 0}},
                                                   {"c_proj.weight", {1, 0, 0, 0}},
                                                   {"c_proj.bias", {0}}}) {
      Tensor target = params.Find(name)->value();
      std::ranges::copy(values, target.mutable_data<float>());
    }
    Pass pass;
    const std::vector<float> inputs{-3, -1, -0.5f, 0, 0.5f, 1, 2, 4};
    const std::vector<float> y = mlp(Tensor::FromHost(Shape{8, 1}, inputs), pass).ToHost();
    for (size_t i = 0; i < inputs.size(); ++i) {
      const double x = static_cast<double>(inputs[i]);
      const double inner = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
      const double expected = form == GeluForm::kExact ? 0.5 * x * (1 + std::erf(x / std::sqrt(2)))
                                                       : 0.5 * x * (1 + std::tanh(inner));
      EXPECT_NEAR(y[i], expected, 1e-6) << x;
    }
    // The two differ here: by 1e-4 at 2.
    EXPECT_NEAR(y[6], form == GeluForm::kExact ? 1.954500 : 1.954598, 2e-6);
  }
}

TEST(LanguageModel, InitialValuesOfTheReference) {
  ParameterSet params(Device::Cpu(), 3);
  LanguageConfig config = Tiny(Mixer::kTssa);
  config.width = 192;
  const LanguageModel model(params.Root(), config);
  params.Finalize();
  auto deviation = [&](const std::string& name) {
    double squares = 0;
    const std::vector<float> values = params.Find(name)->value().ToHost();
    for (float value : values) squares += static_cast<double>(value) * static_cast<double>(value);
    return std::sqrt(squares / static_cast<double>(values.size()));
  };
  // A sample deviation of n values is off by about 1/√(2n): below 1 % for these sizes.
  EXPECT_NEAR(deviation("transformer.wte.weight"), 0.02, 0.02 * 0.05);
  EXPECT_NEAR(deviation("transformer.h.0.attn.c_attn.weight"), 0.02, 0.02 * 0.03);
  EXPECT_NEAR(deviation("transformer.h.0.mlp.c_proj.weight"), 0.02 / std::sqrt(4.0), 0.01 * 0.03);
  EXPECT_EQ(deviation("transformer.h.0.attn.temp"), 1.0);
  EXPECT_EQ(deviation("transformer.h.0.attn.denom_bias"), 0.0);
}

Tensor Tokens(int64_t batch, int64_t count, int64_t vocabulary) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < batch * count; ++i) {
    ids.push_back(static_cast<int32_t>((i * i + 7 * i + 3) % vocabulary));
  }
  return Tensor::FromHost<int32_t>({batch, count}, ids);
}

// Columns [begin, end) of token ids [B, T].
Tensor Columns(const Tensor& tokens, int64_t begin, int64_t end) {
  const std::vector<int32_t> all = tokens.ToHost<int32_t>();
  const int64_t rows = tokens.shape()[0], length = tokens.shape()[1];
  std::vector<int32_t> ids;
  for (int64_t row = 0; row < rows; ++row) {
    ids.insert(ids.end(), all.begin() + row * length + begin, all.begin() + row * length + end);
  }
  return Tensor::FromHost<int32_t>({rows, end - begin}, ids);
}

// Streaming decode equals the full pass at every length, prefilled or stepped.
TEST(LanguageDecoder, EqualsTheFullPassForEveryPrefix) {
  for (Mixer mixer : {Mixer::kTssa, Mixer::kAttention}) {
    const LanguageConfig config = Tiny(mixer);
    ParameterSet params(Device::Cpu(), 5);
    const LanguageModel model(params.Root(), config);
    params.Finalize();
    constexpr int64_t kBatch = 2, kLength = 130;
    const Tensor tokens = Tokens(kBatch, kLength, config.vocabulary);
    Pass pass;
    const std::vector<float> full = model.Logits(tokens, pass).ToHost();
    auto expect_row = [&](const Tensor& logits, int64_t position) {
      const std::vector<float> row = logits.ToHost();
      for (int64_t b = 0; b < kBatch; ++b) {
        for (int64_t v = 0; v < config.vocabulary; ++v) {
          const auto i = static_cast<size_t>((b * kLength + position) * config.vocabulary + v);
          ASSERT_NEAR(row[static_cast<size_t>(b * config.vocabulary + v)], full[i], 1e-5)
              << position;
        }
      }
    };
    LanguageDecoder stepped(model, kBatch);
    for (int64_t t = 0; t < kLength; ++t) {
      const Tensor prefix = Columns(tokens, 0, t + 1);
      LanguageDecoder prefilled(model, kBatch);
      expect_row(prefilled.Prefill(prefix), t);
      const Tensor token = Columns(tokens, t, t + 1);
      expect_row(t == 0 ? stepped.Prefill(token) : stepped.Step(token.Reshaped({kBatch})), t);
    }
    EXPECT_EQ(stepped.position(), kLength);
  }
}

TEST(LanguageModel, LossEqualsThatOfTheLogits) {
  ParameterSet params(Device::Cpu(), 5);
  const LanguageModel model(params.Root(), Tiny(Mixer::kTssa));
  params.Finalize();
  const Tensor tokens = Tokens(2, 20, 31);
  Pass pass;
  const std::vector<float> logits = model.Logits(tokens, pass).ToHost();
  const std::vector<int32_t> targets = tokens.ToHost<int32_t>();
  double expected = 0;
  for (size_t row = 0; row < targets.size(); ++row) {
    double sum = 0;
    for (size_t v = 0; v < 31; ++v) sum += std::exp(static_cast<double>(logits[row * 31 + v]));
    expected +=
        std::log(sum) - static_cast<double>(logits[row * 31 + static_cast<size_t>(targets[row])]);
  }
  EXPECT_NEAR(model.Loss(tokens, tokens, pass).Item(), expected, 1e-5 * expected);
}

TEST(LanguageModel, GradientsOfBFloat16AreNearThoseOfFloat32) {
  std::vector<std::vector<float>> gradients;
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    ParameterSet params(Device::Cpu(), 5);
    const LanguageModel model(params.Root(), Tiny(Mixer::kTssa));
    params.Finalize(dtype);
    params.StartStep();
    Pass pass{.training = true, .compute_dtype = dtype};
    const Tensor tokens = Tokens(4, 64, 31);
    Tape tape;
    tape.Backward(model.Loss(tokens, tokens, pass), 1.0 / 256);
    gradients.push_back(params.Find("transformer.h.0.mlp.c_fc.weight")->grad().value().ToHost());
  }
  double difference = 0, size = 0;
  for (size_t i = 0; i < gradients[0].size(); ++i) {
    difference += std::pow(static_cast<double>(gradients[1][i] - gradients[0][i]), 2);
    size += std::pow(static_cast<double>(gradients[0][i]), 2);
  }
  // Some ten roundings to eight bits between the input and this gradient, each 0.4 % at most.
  EXPECT_LT(std::sqrt(difference / size), 0.04);
  EXPECT_GT(difference, 0);
}

TEST(LanguageConfig, RulesAreOneLineNamingTheSetting) {
  LanguageConfig config = Tiny(Mixer::kTssa);
  config.heads = 5;
  EXPECT_EQ(config.Validate().message(), "width 24 is not a multiple of heads 5");
  config.heads = 0;
  EXPECT_EQ(config.Validate().message(), "heads must be at least 1, got 0");
}

}  // namespace
}  // namespace tost::models
