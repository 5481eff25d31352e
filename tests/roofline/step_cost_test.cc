// Whole training steps on the counting device.
#include "roofline/step_cost.h"

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "autograd/base/errors.h"
#include "autograd/tape.h"
#include "gtest/gtest.h"
#include "models/language_model.h"
#include "models/variants.h"
#include "models/vision_model.h"
#include "ops/loss.h"
#include "roofline/machines.h"
#include "roofline/report.h"
#include "trainers/optimizer.h"

namespace tost::roofline {
namespace {

TrainingStep::Update AdamW(ParameterSet& params) {
  return [optimizer = std::make_shared<train::AdamW>(params, train::OptimizerOptions{})] {
    optimizer->Step(1e-3f);
  };
}

std::unique_ptr<TrainingStep> StepOf(const models::LanguageConfig& config,
                                     DType compute_dtype = DType::kFloat32) {
  const auto declare = [=](ParameterScope scope) -> TrainingStep::Loss {
    auto model = std::make_shared<models::LanguageModel>(scope, config);
    return [=](int64_t batch) {
      const Tensor ids = Tensor::Empty({batch, config.context}, DType::kInt32, CountingDevice());
      models::Pass pass{.training = true, .compute_dtype = compute_dtype};
      return model->Loss(ids, ids, pass);
    };
  };
  return std::make_unique<TrainingStep>(compute_dtype, declare, &AdamW);
}

double Flops(const std::vector<Launch>& launches) {
  double flops = 0;
  for (const Launch& launch : launches) flops += static_cast<double>(launch.traffic.flops());
  return flops;
}

TEST(StepCost, Gpt2HasSixFlopsForEachWeightAndToken) {
  const models::LanguageConfig config = TOST_CHECK_VALUE(models::LanguageVariant("gpt2"));
  const auto step = StepOf(config, DType::kBFloat16);
  constexpr int64_t kBatch = 60;
  const StepCost cost = step->Count(kBatch);

  // Every weight but the positions' multiplies; the tied embedding does so as the vocabulary's
  // projection.
  const auto weights = static_cast<double>(step->parameter_count() - config.context * config.width);
  EXPECT_NEAR(weights, 123.6e6, 0.1e6);
  const auto tokens = static_cast<double>(kBatch * config.context);
  // 4 d FLOPs for a pair of tokens and head in forward, 14 d in backward; a token sees on average
  // half of the others.
  const double pairs = tokens * static_cast<double>(config.context + 1) / 2;
  const double pair = pairs * static_cast<double>(config.width * config.layers);
  const double counted = Flops(cost.forward) + Flops(cost.backward);
  // The rest is softmax, GELU and norms.
  EXPECT_NEAR(counted / (6 * weights * tokens + 18 * pair), 1, 0.02);
  EXPECT_GT(counted, 6 * weights * tokens + 18 * pair);
  // Of the model, backward has twice the products of forward.
  EXPECT_NEAR(static_cast<double>(cost.model_flops) / (6 * weights * tokens + 12 * pair), 1, 0.02);
}

TEST(StepCost, TheUpdateTouchesEveryParameterOnce) {
  const models::LanguageConfig config{
      .layers = 2, .heads = 2, .width = 32, .context = 64, .vocabulary = 40};
  const auto step = StepOf(config, DType::kBFloat16);
  Traffic adamw;
  for (const Launch& launch : step->Count(1).update) {
    if (launch.kernel == "adamw") adamw += launch.traffic;
  }
  // Gradient, value and two moments are read; the last three written, with the matrices' copies.
  const int64_t count = step->parameter_count();
  EXPECT_GE(adamw.bytes_read, 16 * count);
  EXPECT_LE(adamw.bytes_read, 16 * count + 2000);  // the update's numbers
  EXPECT_GT(adamw.bytes_written, 13 * count);
  EXPECT_LE(adamw.bytes_written, 14 * count);
}

// What the same step takes on the CPU.
int64_t PeakOnCpu(const models::LanguageConfig& config, int64_t batch) {
  ParameterSet params(Device::Cpu(), 1);
  const models::LanguageModel model(params.Root(), config);
  params.Finalize();
  train::AdamW optimizer(params, {});
  params.StartStep();
  const Tensor ids = Tensor::Zeros({batch, config.context}, DType::kInt32);
  DeviceRuntime& cpu = RuntimeOf(Device::Cpu());
  const int64_t before = cpu.Memory().live_bytes;
  cpu.ResetPeakMemory();
  models::Pass pass{.training = true};
  {
    Tape tape;
    tape.Backward(model.Loss(ids, ids, pass));
  }
  optimizer.Step(1e-3f);
  return cpu.Memory().peak_bytes - before;
}

TEST(StepCost, MemoryIsThatOfARealStep) {
  const models::LanguageConfig config{
      .layers = 4, .heads = 4, .width = 64, .context = 128, .vocabulary = 200};
  for (const int64_t batch : {1, 4}) {
    SCOPED_TRACE(batch);
    const auto ids = 512 * ((batch * 128 * 4 + 511) / 512);
    const StepMemory memory = StepOf(config)->Count(batch).memory;
    EXPECT_EQ(memory.activations - ids, PeakOnCpu(config, batch));
  }
}

TEST(StepCost, MemoryByKind) {
  const models::LanguageConfig config = TOST_CHECK_VALUE(models::LanguageVariant("tost_base"));
  const auto step = StepOf(config, DType::kBFloat16);
  const StepMemory memory = step->Count(1).memory;
  const auto count = static_cast<double>(step->parameter_count());
  // float32, and bfloat16 copies of the matrices; blocks are up to an eighth larger than asked for.
  const auto expect_about = [](int64_t bytes, double asked) {
    EXPECT_GE(static_cast<double>(bytes), 0.999 * asked);
    EXPECT_LE(static_cast<double>(bytes), 1.125 * asked);
  };
  expect_about(memory.parameters, 6 * count);
  expect_about(memory.gradients, 4 * count);
  expect_about(memory.optimizer, 8 * count);
  EXPECT_GT(memory.activations, 0);
  EXPECT_EQ(memory.peak(),
            memory.parameters + memory.gradients + memory.optimizer + memory.activations);
}

TEST(StepCost, TheLargestBatchFitsAndOneMoreDoesNot) {
  const models::LanguageConfig config{
      .layers = 2, .heads = 2, .width = 32, .context = 64, .vocabulary = 40};
  const auto step = StepOf(config);
  constexpr int64_t kBytes = 20'000'000;
  const int64_t batch = step->LargestBatch(kBytes);
  EXPECT_GT(batch, 10);
  EXPECT_LE(step->Count(batch).memory.peak(), kBytes);
  EXPECT_GT(step->Count(batch + 1).memory.peak(), kBytes);
  EXPECT_EQ(step->LargestBatch(1000), 0);
}

TEST(StepCost, EveryMixerOfPicturesIsCounted) {
  for (const std::string name :
       {"tost_small_pictures_p8", "xcit_small_pictures_p8", "vit_small_pictures_p8",
        "crate_small_pictures_p8", "tost_small_pictures_p8_ista"}) {
    SCOPED_TRACE(name);
    const auto config = TOST_CHECK_VALUE(models::ImageVariant(name));
    TrainingStep step(
        DType::kBFloat16,
        [&](ParameterScope scope) -> TrainingStep::Loss {
          auto model = std::make_shared<models::ImageClassifier>(scope, config);
          return [=](int64_t batch) {
            models::Pass pass{
                .training = true, .drop_path = 0.1f, .compute_dtype = DType::kBFloat16};
            return ops::SoftCrossEntropy(
                model->Logits(Tensor::Empty({batch, 32, 32, 3}, DType::kFloat32, CountingDevice()),
                              pass),
                Tensor::Empty({batch, 10}, DType::kFloat32, CountingDevice()));
          };
        },
        &AdamW);
    const StepCost one = step.Count(1), eight = step.Count(8);
    // But for what belongs to the parameters, eight pictures are eight times one.
    EXPECT_NEAR(static_cast<double>(eight.model_flops) / static_cast<double>(one.model_flops), 8,
                0.2);
    EXPECT_EQ(one.forward.size(), eight.forward.size());
  }
}

TEST(Floors, AreTheLongestOfThreeTimes) {
  const Machine machine{.bytes_per_second = 100, .bfloat16_products = 1000, .float32 = 10};
  const Traffic memory{.bytes_read = 150, .bytes_written = 50, .bfloat16_products = 1000};
  EXPECT_EQ(FloorOf(memory, machine).seconds, 2);
  EXPECT_EQ(FloorOf(memory, machine).bound, Bound::kMemory);
  const Traffic products{.bytes_read = 100, .bfloat16_products = 5000, .vector_flops = 10};
  EXPECT_EQ(FloorOf(products, machine).seconds, 5);
  EXPECT_EQ(FloorOf(products, machine).bound, Bound::kProducts);
  const Traffic vector{.bytes_read = 100, .float32_products = 30, .vector_flops = 10};
  EXPECT_EQ(FloorOf(vector, machine).seconds, 4);
  EXPECT_EQ(FloorOf(vector, machine).bound, Bound::kVector);
}

TEST(Floors, AddUpLaunchByLaunch) {
  const Machine machine{.bytes_per_second = 100, .bfloat16_products = 1000, .float32 = 10};
  // Each launch of "a" is bound by something else: 3 s and 1 s.
  const StepCost cost{.forward = {{"a", {.bytes_read = 300}},
                                  {"b", {.bytes_read = 500}},
                                  {"a", {.bfloat16_products = 1000}}},
                      .update = {{"a", {.bytes_written = 100}}}};
  const std::vector<KernelFloor> floors = Floors(cost, machine);
  ASSERT_EQ(floors.size(), 3u);
  EXPECT_EQ(floors[0].kernel, "b");
  EXPECT_EQ(floors[1].kernel, "a");
  EXPECT_EQ(floors[1].launches, 2);
  EXPECT_EQ(floors[1].seconds, 4);
  EXPECT_EQ(floors[1].bound, Bound::kMemory);
  EXPECT_EQ(floors[2].phase, "update");
}

}  // namespace
}  // namespace tost::roofline
