// Blocks, whole models with every gradient, greedy text, and twenty updates against the official
// implementation's values.
#include <algorithm>
#include <cmath>
#include <string>

#include "autograd/tape.h"
#include "gtest/gtest.h"
#include "models/language_model.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "tests/golden/golden.h"
#include "trainers/optimizer.h"
#include "trainers/sample_language.h"
#include "trainers/schedule.h"
#include "trainers/trainer.h"

namespace tost {
namespace {

using golden::ExpectClose;
using golden::ExpectGolden;
using golden::GoldenFile;
using golden::GoldenFiles;
using golden::LoadParameters;
using golden::WithoutRange;
using models::LanguageConfig;
using models::LanguageModel;
using models::Pass;

// The file's model. Plain GPT-2 says nothing of TSSA and has no LayerScale.
LanguageConfig ConfigOf(const GoldenFile& file, const std::string& prefix) {
  LanguageConfig config{.layers = static_cast<int>(file.Int(prefix + "n_layer")),
                        .heads = static_cast<int>(file.Int(prefix + "n_head")),
                        .width = static_cast<int>(file.Int(prefix + "n_embd")),
                        .context = file.Int(prefix + "block_size"),
                        .vocabulary = file.Int(prefix + "vocab_size"),
                        .bias = file.Flag(prefix + "bias")};
  const bool tssa_file = file.HasConfig(prefix + "TSSA");
  config.mixer =
      tssa_file && file.Flag(prefix + "TSSA") ? models::Mixer::kTssa : models::Mixer::kAttention;
  if (!tssa_file) config.layer_scale = std::nullopt;
  return config;
}

// Gradients are stored as float32 only, so both sides carry the rounding of some hundred float32
// operations: 2e-5 of the largest entry is about 170 roundings.
constexpr double kFloatGradient = 2e-5;

// Some ten float32 roundings between the embedding and the logits.
constexpr double kFloatLogits = 2e-6;

struct Loaded {
  explicit Loaded(const LanguageConfig& config)
      : params(golden::TestDevice(), 0), model(params.Root(), config) {
    params.Finalize();
  }
  ParameterSet params;
  LanguageModel model;
};

TEST(LanguageModel, LogitsLossAndAllGradients) {
  for (const GoldenFile& file : GoldenFiles("lm_tiny_")) {
    SCOPED_TRACE(file.name());
    Loaded loaded(ConfigOf(file, ""));
    LoadParameters(file, "param.", loaded.params);
    const Tensor tokens = file.Load("idx", DType::kInt32);
    const Tensor targets = file.Load("target", DType::kInt32);

    Pass evaluation;
    ExpectGolden(file, "logits", loaded.model.Logits(tokens, evaluation));

    int64_t valid = 0;
    for (int64_t target : file.Integers("target")) valid += target >= 0 ? 1 : 0;
    const double scale = 1.0 / static_cast<double>(valid);
    Pass pass{.training = true};
    loaded.params.StartStep();
    Tape tape;
    const Tensor loss = loaded.model.Loss(tokens, targets, pass);
    EXPECT_NEAR(loss.Item() * scale, file.Scalar("loss.f64"), 1e-6 * file.Scalar("loss.f64"));
    tape.Backward(loss, scale);
    for (const Parameter& parameter : loaded.params.parameters()) {
      ExpectClose(file.Doubles("grad." + parameter.name()), parameter.grad().value(),
                  kFloatGradient, parameter.name());
    }
  }
}

TEST(LanguageModel, RecomputationChangesNoGradientBit) {
  for (const GoldenFile& file : GoldenFiles("lm_tiny_")) {
    SCOPED_TRACE(file.name());
    Loaded loaded(ConfigOf(file, ""));
    LoadParameters(file, "param.", loaded.params);
    auto gradients = [&](bool recompute) {
      std::vector<std::vector<float>> all;
      Pass pass{
          .training = true, .dropout = 0.2f, .recompute = recompute, .random = RandomStream(1, 2)};
      loaded.params.StartStep();
      Tape tape;
      tape.Backward(loaded.model.Loss(file.Load("idx", DType::kInt32),
                                      file.Load("target", DType::kInt32), pass));
      for (const Parameter& parameter : loaded.params.parameters()) {
        all.push_back(parameter.grad().value().ToHost());
      }
      return all;
    };
    EXPECT_EQ(gradients(false), gradients(true));
  }
}

TEST(LanguageModel, GreedyTextInsideAndBeyondTheContext) {
  for (const GoldenFile& file : GoldenFiles("lm_tiny_")) {
    SCOPED_TRACE(file.name());
    Loaded loaded(ConfigOf(file, ""));
    LoadParameters(file, "param.", loaded.params);
    const std::vector<int64_t> prompts = file.Integers("gen_prompt");
    const std::vector<int64_t> texts = file.Integers("gen_greedy");
    const int64_t rows = file.ShapeOf("gen_prompt")[0], prompt_size = file.ShapeOf("gen_prompt")[1];
    const int64_t text_size = file.ShapeOf("gen_greedy")[1];
    for (int64_t row = 0; row < rows; ++row) {
      std::vector<int32_t> text(prompts.begin() + row * prompt_size,
                                prompts.begin() + (row + 1) * prompt_size);
      const std::vector<int32_t> prompt = text;
      train::Generate(loaded.model, prompt, text_size - prompt_size, {.temperature = 0},
                      RandomKey{}, [&](int32_t token) { text.push_back(token); });
      const std::vector<int32_t> expected(texts.begin() + row * text_size,
                                          texts.begin() + (row + 1) * text_size);
      EXPECT_EQ(text, expected);
    }
  }
}

TEST(LanguageModel, LastLogitsOfAShorterPrompt) {
  for (const GoldenFile& file : GoldenFiles("lm_tiny_")) {
    SCOPED_TRACE(file.name());
    Loaded loaded(ConfigOf(file, ""));
    LoadParameters(file, "param.", loaded.params);
    const Shape shape = file.ShapeOf("logits_short_last");
    // The file does not say how short the prompt is: it is the length at which the logits agree.
    const std::vector<int64_t> ids = file.Integers("idx");
    const int64_t context = file.ShapeOf("idx")[1];
    const std::vector<double> truth = file.Doubles("logits_short_last.f64");
    double best = INFINITY, largest = 0;
    for (double logit : truth) largest = std::max(largest, std::abs(logit));
    for (int64_t length = 1; length < context; ++length) {
      std::vector<int32_t> prompt;
      for (int64_t row = 0; row < shape[0]; ++row) {
        prompt.insert(prompt.end(), ids.begin() + row * context,
                      ids.begin() + row * context + length);
      }
      models::LanguageDecoder decoder(loaded.model, shape[0]);
      const std::vector<double> logits =
          decoder.Prefill(golden::OnDevice<int32_t>({shape[0], length}, prompt)).ToHost<double>();
      double worst = 0;
      for (size_t i = 0; i < truth.size(); ++i) {
        worst = std::max(worst, std::abs(logits[i] - truth[i]));
      }
      best = std::min(best, worst);
    }
    EXPECT_LE(best, kFloatLogits * largest);
  }
}

TEST(LanguageBlock, OutputAndGradients) {
  for (const GoldenFile& file : GoldenFiles("lm_block_tssa")) {
    SCOPED_TRACE(file.name());
    const LanguageConfig config{.heads = static_cast<int>(file.Int("heads")),
                                .width = static_cast<int>(file.ShapeOf("x")[2]),
                                .context = file.Int("block_size"),
                                .bias = file.Has("param.ln_1.bias")};
    ParameterSet params(golden::TestDevice(), 0);
    const models::LanguageBlock block(params.Root(), config);
    params.Finalize();
    LoadParameters(file, "param.", params);
    params.StartStep();
    const Tensor x = Leaf(file.Load("x", DType::kFloat32));
    Pass pass{.training = true};
    Tape tape;
    const Tensor y = block(x, pass, 0);
    ExpectGolden(file, "y", y);
    tape.BackwardFrom(y, file.Load("dy", DType::kFloat32));
    ExpectGolden(file, "dx", x.grad()->value());
    for (const Parameter& parameter : params.parameters()) {
      ExpectGolden(file, "grad." + parameter.name(), parameter.grad().value());
    }
  }
}

// Twenty float32 updates against float64 ones; AdamW divides by the size of the gradient, so a
// relative error of 1e-6 in a small gradient is one of its step too.
constexpr double kTwentyUpdates = 1e-4;

bool IsAttention(const GoldenFile& file) {
  return ConfigOf(file, "cfg_").mixer == models::Mixer::kAttention;
}

// The official recipe: micro-batches, learning rates, clipping, AdamW with its decay groups. The
// losses of a float32 run leave those of the float64 run slowly, as rounding grows through updates.
TEST(LanguageTraining, TwentyUpdates) {
  for (const GoldenFile& file : GoldenFiles("lm_train_")) {
    SCOPED_TRACE(file.name());
    Loaded loaded(ConfigOf(file, "cfg_"));
    LoadParameters(file, "init.", loaded.params);
    train::AdamW optimizer(loaded.params, {.beta1 = static_cast<float>(file.Number("b1")),
                                           .beta2 = static_cast<float>(file.Number("b2")),
                                           .weight_decay = static_cast<float>(file.Number("wd")),
                                           .clip_norm = static_cast<float>(file.Number("clip"))});
    const train::WarmupCosine schedule{.peak = static_cast<float>(file.Number("lr")),
                                       .floor = static_cast<float>(file.Number("min_lr")),
                                       .warmup = file.Int("warmup"),
                                       .total = file.Int("decay")};
    const Shape shape = file.ShapeOf("tokens");  // [batches, accumulation, rows, T + 1]
    const std::vector<int64_t> all = file.Integers("tokens");
    const int64_t rows = shape[2], length = shape[3] - 1;
    // Inputs (shift 0) or targets (shift 1) of a micro-step; update u is the official iteration
    // u−1.
    auto micro_batch = [&](int64_t update, int micro_step, int64_t shift) {
      const int64_t first = ((update - 1) % shape[0] * shape[1] + micro_step) * rows * shape[3];
      std::vector<int32_t> ids;
      for (int64_t row = 0; row < rows; ++row) {
        const auto begin = all.begin() + first + row * shape[3] + shift;
        ids.insert(ids.end(), begin, begin + length);
      }
      return golden::OnDevice<int32_t>({rows, length}, ids);
    };
    const train::TrainingTask task{
        .loss_sum =
            [&](int64_t update, int micro_step) {
              Pass pass{.training = true};
              return loaded.model.Loss(micro_batch(update, micro_step, 0),
                                       micro_batch(update, micro_step, 1), pass);
            },
        .learning_rate = [&](int64_t update) { return schedule.At(update - 1); }};
    const train::UpdatePlan plan{.micro_steps = static_cast<int>(file.Int("accum")),
                                 .targets = file.Int("accum") * rows * length};
    const std::vector<double> losses = file.Doubles("loss.f64"), rates = file.Doubles("lr");
    const std::vector<double> norms = file.Doubles("grad_norm.f64");
    for (int64_t update = 1; update <= file.Int("steps"); ++update) {
      const size_t i = static_cast<size_t>(update - 1);
      EXPECT_NEAR(task.learning_rate(update), rates[i], 1e-6 * rates[i]) << update;
      const Tensor loss = train::RunUpdate(task, update, plan, loaded.params, optimizer);
      EXPECT_NEAR(loss.Item(), losses[i], 1e-5 * losses[i]) << update;
      EXPECT_NEAR(optimizer.Result().gradient_norm, norms[i], 1e-4 * norms[i]) << update;
    }
    for (const Parameter& parameter : loaded.params.parameters()) {
      std::vector<double> expected = file.Doubles("final." + parameter.name());
      Tensor actual = parameter.value();
      // A softmax does not see a bias of the keys: its gradient is rounding alone, which AdamW
      // blows up to the size of a step. That third says nothing.
      if (parameter.name().ends_with("attn.c_attn.bias") && IsAttention(file)) {
        const int64_t width = actual.numel() / 3;
        actual = WithoutRange(actual, width, 2 * width);
        expected.erase(expected.begin() + width, expected.begin() + 2 * width);
      }
      ExpectClose(expected, actual, kTwentyUpdates, parameter.name());
    }
  }
}

}  // namespace
}  // namespace tost
