// tost bench step, tost bench tssa, tost bench decode: the figures of docs/performance.md.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "autograd/base/parallel.h"
#include "autograd/base/philox.h"
#include "autograd/tape.h"
#include "models/image_classifier.h"
#include "models/language_model.h"
#include "models/variants.h"
#include "ops/elementwise.h"
#include "ops/loss.h"
#include "ops/softmax.h"
#include "ops/tssa.h"
#include "tools/tost/command_line.h"
#include "trainers/evaluate_language.h"
#include "trainers/optimizer.h"
#include "trainers/vision_settings.h"

namespace tost {
namespace {

struct BenchOptions {
  std::string model = "tost_char";
  int64_t context = 0;     // 0: the named model's
  int64_t image_size = 0;  // 0: the named model's
  std::string variant = "causal";
  int64_t batch = 8;
  int64_t tokens = 1024;
  int64_t width = 768;
  int64_t heads = 12;
  int repeats = 20;
  std::string compute_dtype = "float32";
  Device device;
};

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double Median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

// Median wall time of `work`, until the device is done with it, over the repeats, after two calls
// that fill caches and pools.
template <class Work>
double Time(const BenchOptions& options, Work&& work) {
  constexpr int kWarmUp = 2;
  std::vector<double> seconds;
  DeviceRuntime& runtime = RuntimeOf(options.device);
  for (int i = -kWarmUp; i < options.repeats; ++i) {
    runtime.Synchronize();
    const double start = Seconds();
    work();
    runtime.Synchronize();
    if (i >= 0) seconds.push_back(Seconds() - start);
  }
  return Median(std::move(seconds));
}

// Of the process, or of another device's memory.
double PeakMegabytes(Device device) {
  if (device != Device::Cpu()) {
    return static_cast<double>(RuntimeOf(device).Memory().peak_bytes) / (1 << 20);
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

Tensor RandomTokens(Shape shape, int64_t vocabulary, Device device) {
  std::vector<int32_t> ids(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < ids.size(); ++i) {
    const float u = Uniform(RandomKey{.seed = 1}, static_cast<int64_t>(i), 0);
    ids[i] = static_cast<int32_t>(u * static_cast<float>(vocabulary));
  }
  return Tensor::FromHost(shape, ids, device);
}

Tensor RandomFloats(Shape shape, uint64_t seed, Device device) {
  std::vector<float> values(static_cast<size_t>(shape.numel()));
  ParallelFor(static_cast<int64_t>(values.size()), 1 << 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      values[static_cast<size_t>(i)] = 2 * Uniform(RandomKey{.seed = seed}, i, 0) - 1;
    }
  });
  return Tensor::FromHost(shape, values, device);
}

absl::Status RequirePositive(const std::string& option, int64_t value) {
  if (value > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--", option, " must be at least 1, got ", value));
}

absl::Status Unused(const std::string& option, int64_t value, const std::string& model,
                    const std::string& instead) {
  if (value == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--", option, " is not for ", model, ", which takes --", instead));
}

absl::StatusOr<models::LanguageConfig> ModelOf(const BenchOptions& options) {
  TOST_ASSIGN_OR_RETURN(models::LanguageConfig config, models::LanguageVariant(options.model));
  if (options.context > 0) config.context = options.context;
  return config;
}

// Median time of `loss`, its gradients times `scale` and an update.
double TimeUpdates(const BenchOptions& options, ParameterSet& params, train::Optimizer& optimizer,
                   double scale, const std::function<Tensor()>& loss) {
  return Time(options, [&] {
    params.StartStep();
    Tape tape;
    tape.Backward(loss(), scale);
    optimizer.Step(1e-4f);
  });
}

void PrintStep(const BenchOptions& options, const char* extent_name, int64_t extent,
               double seconds) {
  std::printf(
      "{\"bench\":\"step\",\"model\":\"%s\",\"%s\":%lld,\"batch\":%lld,\"threads\":%d,"
      "\"device\":\"%s\",\"compute_dtype\":\"%s\",\"seconds\":%.6f,\"peak_mb\":%.0f}\n",
      options.model.c_str(), extent_name, static_cast<long long>(extent),
      static_cast<long long>(options.batch), ThreadCount(), options.device.ToString().c_str(),
      options.compute_dtype.c_str(), seconds, PeakMegabytes(options.device));
}

// Forward, backward and AdamW on random tokens.
absl::Status BenchLanguageStep(const BenchOptions& options) {
  TOST_RETURN_IF_ERROR(Unused("image_size", options.image_size, options.model, "context"));
  TOST_ASSIGN_OR_RETURN(const models::LanguageConfig config, ModelOf(options));
  ParameterSet params(options.device, /*seed=*/1);
  const models::LanguageModel model(params.Root(), config);
  TOST_ASSIGN_OR_RETURN(const DType compute_dtype, train::ComputeDTypeNamed(options.compute_dtype));
  params.Finalize(compute_dtype);
  train::AdamW optimizer(params, {});
  const Tensor tokens =
      RandomTokens({options.batch, config.context}, config.vocabulary, options.device);
  const double scale = 1.0 / static_cast<double>(tokens.numel());
  const double seconds = TimeUpdates(options, params, optimizer, scale, [&] {
    models::Pass pass{.training = true, .compute_dtype = compute_dtype};
    return model.Loss(tokens, tokens, pass);
  });
  PrintStep(options, "context", config.context, seconds);
  return absl::OkStatus();
}

// Forward, backward and AdamW, as the official pretraining sets it, on random pictures with random
// soft targets, such as mixup makes.
absl::Status BenchVisionStep(const BenchOptions& options, models::ImageClassifierConfig config) {
  TOST_RETURN_IF_ERROR(Unused("context", options.context, options.model, "image_size"));
  if (options.image_size != 0) config = models::WithImageSize(config, options.image_size);
  TOST_RETURN_IF_ERROR(models::Validate(config));
  const int64_t size = models::image_size(config), classes = models::classes(config);
  ParameterSet params(options.device, /*seed=*/1);
  const models::ImageClassifier model(params.Root(), config);
  TOST_ASSIGN_OR_RETURN(const DType compute_dtype, train::ComputeDTypeNamed(options.compute_dtype));
  params.Finalize(compute_dtype);
  train::AdamW optimizer(params, {.beta2 = 0.999,
                                  .weight_decay = 0.05,
                                  .clip_norm = 0,
                                  .decays = &train::DecaysInOfficialPretraining});
  const Tensor images =
      ops::Cast(RandomFloats({options.batch, size, size, 3}, 1, options.device), compute_dtype);
  const Tensor targets = ops::Softmax(RandomFloats({options.batch, classes}, 2, options.device), 1);
  const double seconds = TimeUpdates(options, params, optimizer, /*scale=*/1, [&] {
    models::Pass pass{.training = true, .compute_dtype = compute_dtype};
    return ops::SoftCrossEntropy(model.Logits(images, pass), targets);
  });
  PrintStep(options, "image_size", size, seconds);
  return absl::OkStatus();
}

absl::Status BenchStep(const BenchOptions& options) {
  TOST_RETURN_IF_ERROR(RequirePositive("batch", options.batch));
  TOST_RETURN_IF_ERROR(RequirePositive("repeats", options.repeats));
  if (const auto config = models::ImageVariant(options.model); config.ok()) {
    return BenchVisionStep(options, *config);
  }
  if (models::LanguageVariant(options.model).ok()) return BenchLanguageStep(options);
  return absl::NotFoundError(absl::StrCat("unknown model ", options.model,
                                          "; \"tost inspect models\" lists the known ones"));
}

// The operator alone, without its projections.
absl::Status BenchTssa(const BenchOptions& options) {
  const bool causal = options.variant == "causal";
  if (!causal && options.variant != "whole") {
    return absl::InvalidArgumentError(
        absl::StrCat("--variant is causal or whole, not '", options.variant, "'"));
  }
  TOST_RETURN_IF_ERROR(RequirePositive("repeats", options.repeats));
  for (const auto& [name, value] : {std::pair{"batch", options.batch},
                                    {"tokens", options.tokens},
                                    {"width", options.width},
                                    {"heads", options.heads}}) {
    TOST_RETURN_IF_ERROR(RequirePositive(name, value));
  }
  if (options.width % options.heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--width ", options.width, " is not a multiple of --heads ", options.heads));
  }
  const Shape shape{options.batch, options.tokens, options.width};
  const Tensor w = Leaf(RandomFloats(shape, 1, options.device)),
               dy = RandomFloats(shape, 2, options.device);
  const Tensor temp = Leaf(Tensor::FromHost<float>(
      {options.heads, 1}, std::vector<float>(static_cast<size_t>(options.heads), 1.0f),
      options.device));
  const Tensor bias =
      Leaf(Tensor::Zeros({options.heads, options.tokens, 1}, DType::kFloat32, options.device));
  const auto apply = [&] { return causal ? ops::CausalTssa(w, temp, bias) : ops::Tssa(w, temp); };
  const double forward = Time(options, apply);
  const double both = Time(options, [&] {
    for (const Tensor* leaf : {&w, &temp, &bias}) leaf->grad()->Reset();
    Tape tape;
    tape.BackwardFrom(apply(), dy);
  });
  std::printf(
      "{\"bench\":\"tssa\",\"variant\":\"%s\",\"tokens\":%lld,\"width\":%lld,\"heads\":%lld,"
      "\"batch\":%lld,\"threads\":%d,\"device\":\"%s\",\"forward_seconds\":%.6f,\"seconds\":%.6f,"
      "\"ns_per_token\":%.1f,\"peak_mb\":%.0f}\n",
      options.variant.c_str(), static_cast<long long>(options.tokens),
      static_cast<long long>(options.width), static_cast<long long>(options.heads),
      static_cast<long long>(options.batch), ThreadCount(), options.device.ToString().c_str(),
      forward, both, both * 1e9 / static_cast<double>(options.batch * options.tokens),
      PeakMegabytes(options.device));
  return absl::OkStatus();
}

// Tokens per second inside the context, one sequence.
absl::Status BenchDecode(const BenchOptions& options) {
  TOST_RETURN_IF_ERROR(RequirePositive("repeats", options.repeats));
  TOST_ASSIGN_OR_RETURN(const models::LanguageConfig config, ModelOf(options));
  ParameterSet params(options.device, /*seed=*/1);
  const models::LanguageModel model(params.Root(), config);
  params.Finalize();
  const Tensor first = RandomTokens({1, 1}, config.vocabulary, options.device);
  const int64_t count = std::min(options.tokens, config.context - 1);
  const double seconds = Time(options, [&] {
    models::LanguageDecoder decoder(model, /*batch=*/1);
    decoder.Prefill(first);
    for (int64_t i = 0; i < count; ++i) decoder.Step(first.Reshaped({1}));
  });
  std::printf(
      "{\"bench\":\"decode\",\"model\":\"%s\",\"tokens\":%lld,\"threads\":%d,\"device\":\"%s\","
      "\"tokens_per_second\":%.1f}\n",
      options.model.c_str(), static_cast<long long>(count), ThreadCount(),
      options.device.ToString().c_str(), static_cast<double>(count) / seconds);
  return absl::OkStatus();
}

}  // namespace

void AddBenchCommands(CLI::App& app, Commands& commands) {
  CLI::App* bench =
      app.add_subcommand("bench", "Speed on this machine, one JSON line each; floors of others");
  bench->require_subcommand(1);
  auto options = std::make_shared<BenchOptions>();

  Command& step = commands.emplace_back(*bench, "step", "Forward, backward and AdamW of a model",
                                        "tost --threads 2 bench step --model tost_char --batch 8\n"
                                        "  tost --threads 2 bench step --model "
                                        "tost_small_pictures_p8 --batch 64");
  step.Add("model", options->model, "Named model, of language or of pictures");
  step.Add("context", options->context, "Tokens in a sequence; 0: the named model's");
  step.Add("image_size", options->image_size, "Pixels in both directions; 0: the named model's");
  step.Add("batch", options->batch, "Sequences or pictures");
  step.Add("repeats", options->repeats, "Timed repetitions; the median counts");
  step.Add("compute_dtype", options->compute_dtype, "float32 or bfloat16");
  step.AddDevice(options->device);
  step.set_run([options] { return BenchStep(*options); });

  Command& tssa = commands.emplace_back(*bench, "tssa", "The TSSA operator",
                                        "tost --threads 2 bench tssa --tokens 1024 --batch 1\n"
                                        "  tost --threads 2 bench tssa --variant whole --tokens "
                                        "196 --width 192 --heads 4");
  tssa.Add("variant", options->variant,
           "causal (language: tokens see earlier ones), or whole (vision: tokens see all)");
  tssa.Add("tokens", options->tokens, "Tokens");
  tssa.Add("width", options->width, "Channels");
  tssa.Add("heads", options->heads, "Heads");
  tssa.Add("batch", options->batch, "Sequences, or pictures");
  tssa.Add("repeats", options->repeats, "Timed repetitions; the median counts");
  tssa.AddDevice(options->device);
  tssa.set_run([options] { return BenchTssa(*options); });

  AddBenchKernelsCommand(*bench, commands);

  Command& decode =
      commands.emplace_back(*bench, "decode", "Generation, token by token",
                            "tost --threads 2 bench decode --model tost_char --tokens 200");
  decode.Add("model", options->model, "Named model");
  decode.Add("context", options->context, "Context; 0: the named model's");
  decode.Add("tokens", options->tokens, "Tokens to generate");
  decode.Add("repeats", options->repeats, "Timed repetitions; the median counts");
  decode.AddDevice(options->device);
  decode.set_run([options] { return BenchDecode(*options); });

  AddRooflineCommand(*bench, commands);
}

}  // namespace tost
