// Memory of a training step: nothing is left over, and a steady step asks the system for nothing.
#include "autograd/tape.h"
#include "gtest/gtest.h"
#include "models/language_model.h"
#include "trainers/optimizer.h"

namespace tost::train {
namespace {

TEST(TrainingMemory, ASteadyStepReturnsEverythingAndAllocatesNothing) {
  for (const bool recompute : {false, true}) {
    SCOPED_TRACE(recompute);
    const models::LanguageConfig config{
        .layers = 3, .heads = 2, .width = 32, .context = 64, .vocabulary = 40};
    ParameterSet params(Device::Cpu(), 1);
    const models::LanguageModel model(params.Root(), config);
    params.Finalize();
    AdamW optimizer(params, {});
    const Tensor tokens = Tensor::FromHost<int32_t>({4, 64}, std::vector<int32_t>(4 * 64, 7));
    const DeviceRuntime& cpu = RuntimeOf(Device::Cpu());

    auto step = [&](uint32_t update) {
      params.StartStep();
      const int64_t before = cpu.Memory().live_bytes;
      models::Pass pass{.training = true,
                        .dropout = 0.1f,
                        .recompute = recompute,
                        .random = RandomStream(1, update)};
      {
        Tape tape;
        const Tensor loss = model.Loss(tokens, tokens, pass);
        EXPECT_GT(cpu.Memory().live_bytes, before);
        tape.Backward(loss);
      }
      EXPECT_EQ(cpu.Memory().live_bytes, before);
      optimizer.Step(1e-3f);
    };
    step(1);
    step(2);
    const int64_t allocations = cpu.Memory().system_allocations;
    step(3);
    EXPECT_EQ(cpu.Memory().system_allocations, allocations);
  }
}

TEST(TrainingMemory, RecomputationNeedsLess) {
  auto peak = [](bool recompute) {
    const models::LanguageConfig config{
        .layers = 6, .heads = 2, .width = 64, .context = 128, .vocabulary = 40};
    ParameterSet params(Device::Cpu(), 1);
    const models::LanguageModel model(params.Root(), config);
    params.Finalize();
    params.StartStep();
    const Tensor tokens = Tensor::FromHost<int32_t>({4, 128}, std::vector<int32_t>(4 * 128, 7));
    DeviceRuntime& cpu = RuntimeOf(Device::Cpu());
    const int64_t before = cpu.Memory().live_bytes;
    cpu.ResetPeakMemory();
    models::Pass pass{.training = true, .recompute = recompute};
    Tape tape;
    tape.Backward(model.Loss(tokens, tokens, pass));
    return cpu.Memory().peak_bytes - before;
  };
  // Six blocks' activations against one block's and six inputs.
  EXPECT_LT(peak(true), peak(false) / 2);
}

}  // namespace
}  // namespace tost::train
