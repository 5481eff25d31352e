// tost bench roofline: what an update costs at least, by counting its operators.
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "data/atomic_file.h"
#include "models/image_classifier.h"
#include "models/language_model.h"
#include "models/variants.h"
#include "ops/loss.h"
#include "roofline/counting_device.h"
#include "roofline/machines.h"
#include "roofline/report.h"
#include "roofline/step_cost.h"
#include "tools/tost/command_line.h"
#include "trainers/evaluate_language.h"
#include "trainers/optimizer.h"
#include "trainers/vision_settings.h"

namespace tost {
namespace {

struct RooflineOptions {
  std::string model = "tost_base";
  int64_t batch = 8;
  int64_t tokens = 0;      // 0: the named model's
  int64_t image_size = 0;  // 0: the named model's
  std::string compute_dtype = "bfloat16";
  bool recompute = false;
  std::string device = "h200";
  double device_memory = 0;  // GB; 0: the device's
  std::string json;
};

// Sizes whose counts fit 64 bits with room to spare, for every named model.
absl::Status Check(const RooflineOptions& options) {
  constexpr int64_t kMost = int64_t{1} << 18;          // tokens, sequences, GB
  constexpr int64_t kMostPixels = 4096;                // in one direction
  constexpr int64_t kMostTogether = int64_t{1} << 24;  // tokens of a micro-batch
  constexpr int64_t kMostPixelsTogether = int64_t{1} << 32;
  const auto within = [](const char* option, auto value, int64_t least, int64_t most) {
    if (value >= static_cast<decltype(value)>(least) &&
        value <= static_cast<decltype(value)>(most)) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat("--", option, " must be from ", least, " to ", most, ", got ", value));
  };
  TOST_RETURN_IF_ERROR(within("batch", options.batch, 1, kMost));
  TOST_RETURN_IF_ERROR(within("tokens", options.tokens, 0, kMost));
  TOST_RETURN_IF_ERROR(within("image_size", options.image_size, 0, kMostPixels));
  TOST_RETURN_IF_ERROR(within("device_memory", options.device_memory, 0, kMost));
  if (options.batch * options.tokens > kMostTogether ||
      options.batch * options.image_size * options.image_size > kMostPixelsTogether) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--batch ", options.batch, " is more than one micro-batch of this size can be: at most ",
        kMostTogether, " tokens or ", kMostPixelsTogether, " pixels"));
  }
  return absl::OkStatus();
}

// An optimizer's step, keeping the optimizer alive.
roofline::TrainingStep::Update AdamW(ParameterSet& params, train::OptimizerOptions options) {
  return [optimizer = std::make_shared<train::AdamW>(params, std::move(options))] {
    optimizer->Step(1e-4f);
  };
}

// The loss over random targets of a language model.
std::unique_ptr<roofline::TrainingStep> LanguageStep(const models::LanguageConfig& config,
                                                     int64_t tokens, DType compute_dtype,
                                                     bool recompute) {
  const auto declare = [=](ParameterScope scope) -> roofline::TrainingStep::Loss {
    auto model = std::make_shared<models::LanguageModel>(scope, config);
    return [=](int64_t batch) {
      const Tensor ids = Tensor::Empty({batch, tokens}, DType::kInt32, roofline::CountingDevice());
      models::Pass pass{.training = true, .recompute = recompute, .compute_dtype = compute_dtype};
      return model->Loss(ids, ids, pass);
    };
  };
  return std::make_unique<roofline::TrainingStep>(
      compute_dtype, declare, [](ParameterSet& params) { return AdamW(params, {}); });
}

// The loss against soft targets of a classifier, and the update of the official pretraining.
std::unique_ptr<roofline::TrainingStep> VisionStep(const models::ImageClassifierConfig& config,
                                                   DType compute_dtype, bool recompute) {
  const auto declare = [=](ParameterScope scope) -> roofline::TrainingStep::Loss {
    auto model = std::make_shared<models::ImageClassifier>(scope, config);
    return [=, size = models::image_size(config)](int64_t batch) {
      const Device device = roofline::CountingDevice();
      const Tensor images = Tensor::Empty({batch, size, size, 3}, compute_dtype, device);
      const Tensor targets =
          Tensor::Empty({batch, models::classes(config)}, DType::kFloat32, device);
      models::Pass pass{.training = true, .recompute = recompute, .compute_dtype = compute_dtype};
      return ops::SoftCrossEntropy(model->Logits(images, pass), targets);
    };
  };
  return std::make_unique<roofline::TrainingStep>(compute_dtype, declare, [](ParameterSet& params) {
    return AdamW(params, {.beta2 = 0.999,
                          .weight_decay = 0.05,
                          .clip_norm = 0,
                          .decays = &train::DecaysInOfficialPretraining});
  });
}

// Sets what the step's size is called in the report.
absl::StatusOr<std::unique_ptr<roofline::TrainingStep>> StepOf(const RooflineOptions& options,
                                                               roofline::Report& report) {
  TOST_ASSIGN_OR_RETURN(const DType compute_dtype, train::ComputeDTypeNamed(options.compute_dtype));
  if (auto config = models::ImageVariant(options.model); config.ok()) {
    if (options.tokens != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("--tokens is not for ", options.model, ", which takes --image_size"));
    }
    if (options.image_size != 0) config = models::WithImageSize(*config, options.image_size);
    TOST_RETURN_IF_ERROR(models::Validate(*config));
    report.image_size = models::image_size(*config);
    return VisionStep(*config, compute_dtype, options.recompute);
  }
  auto config = models::LanguageVariant(options.model);
  if (!config.ok()) {
    return absl::NotFoundError(absl::StrCat("unknown model ", options.model,
                                            "; \"tost inspect models\" lists the known ones"));
  }
  if (options.image_size != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--image_size is not for ", options.model, ", which takes --tokens"));
  }
  if (options.tokens != 0) config->context = options.tokens;
  report.tokens = config->context;
  return LanguageStep(*config, config->context, compute_dtype, options.recompute);
}

absl::Status RunRoofline(const RooflineOptions& options) {
  // What a driver's context and the product library's workspace take besides.
  constexpr int64_t kReservedBytes = 1'000'000'000;
  TOST_RETURN_IF_ERROR(Check(options));
  roofline::Report report{
      .model = options.model, .batch = options.batch, .compute_dtype = options.compute_dtype};
  TOST_ASSIGN_OR_RETURN(const std::unique_ptr<roofline::TrainingStep> step,
                        StepOf(options, report));
  TOST_ASSIGN_OR_RETURN(report.machine, roofline::MachineNamed(options.device));
  const roofline::StepCost cost = step->Count(options.batch);
  report.parameters = step->parameter_count();
  report.floors = roofline::Floors(cost, report.machine);
  report.memory = cost.memory;
  report.model_flops = cost.model_flops;
  report.peak_flops = options.compute_dtype == "bfloat16" ? report.machine.bfloat16_products
                                                          : report.machine.float32;
  report.memory_limit = options.device_memory > 0
                            ? static_cast<int64_t>(options.device_memory * 1e9)
                            : report.machine.memory_bytes;
  report.largest_batch = step->LargestBatch(report.memory_limit - kReservedBytes);
  std::fputs(report.Table().c_str(), stdout);
  if (options.json.empty()) return absl::OkStatus();
  return data::WriteFileAtomically(options.json, report.Json());
}

}  // namespace

void AddRooflineCommand(CLI::App& bench, Commands& commands) {
  auto options = std::make_shared<RooflineOptions>();
  Command& command = commands.emplace_back(
      bench, "roofline",
      "The least time of an update on a device, kernel by kernel, by counting bytes and FLOPs; "
      "needs no such device",
      "tost bench roofline --model tost_base --batch 60 --tokens 1024 --device h200\n"
      "  tost bench roofline --model tost_cab_small_12_p16 --batch 256 --device a100");
  command.Add("model", options->model, "Named model, of language or of pictures");
  command.Add("batch", options->batch, "Sequences or pictures of a micro-batch");
  command.Add("tokens", options->tokens, "Tokens in a sequence; 0: the named model's context");
  command.Add("image_size", options->image_size, "Pixels in both directions; 0: the named model's");
  command.Add("compute_dtype", options->compute_dtype, "float32 or bfloat16");
  command.Add("recompute", options->recompute,
              "Keep only the blocks' inputs: less memory, more time");
  command.Add("device", options->device, "h200, h100, a100, or cpu: this machine, measured");
  command.Add("device_memory", options->device_memory,
              "GB that the largest micro-batch must fit; 0: the device's");
  command.Add("json", options->json, "File for the same figures as JSON");
  command.set_run([options] { return RunRoofline(*options); });
}

}  // namespace tost
