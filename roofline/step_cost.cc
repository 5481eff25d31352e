#include "roofline/step_cost.h"

#include "autograd/base/errors.h"
#include "autograd/tape.h"

namespace tost::roofline {
namespace {

DeviceRuntime& Runtime() { return RuntimeOf(CountingDevice()); }

int64_t LiveBytes() { return Runtime().Memory().live_bytes; }

// How many bytes more are live after `make`.
template <class Make>
int64_t BytesOf(Make&& make) {
  const int64_t before = LiveBytes();
  make();
  return LiveBytes() - before;
}

int64_t FlopsOf(const std::vector<Launch>& launches) {
  int64_t flops = 0;
  for (const Launch& launch : launches) flops += launch.traffic.flops();
  return flops;
}

}  // namespace

TrainingStep::TrainingStep(DType compute_dtype, const std::function<Loss(ParameterScope)>& declare,
                           const std::function<Update(ParameterSet&)>& optimizer)
    : params_(CountingDevice(), /*seed=*/0) {
  memory_.parameters = BytesOf([&] {
    loss_ = declare(params_.Root());
    params_.Finalize(compute_dtype);
  });
  memory_.optimizer = BytesOf([&] { update_ = optimizer(params_); });
  memory_.gradients = BytesOf([&] { params_.StartStep(); });
}

StepCost TrainingStep::Count(int64_t batch) {
  TOST_CHECK(batch >= 1) << "a step of " << batch << " sequences";
  StepCost cost{.memory = memory_};
  TakeLaunches();
  loss_(batch);
  cost.model_flops = 3 * FlopsOf(TakeLaunches());

  params_.StartStep();
  const int64_t before = LiveBytes();
  Runtime().ResetPeakMemory();
  {
    Tape tape;
    const Tensor loss = loss_(batch);
    cost.forward = TakeLaunches();
    tape.Backward(loss);
    cost.backward = TakeLaunches();
  }
  update_();
  cost.update = TakeLaunches();
  cost.memory.activations = Runtime().Memory().peak_bytes - before;
  return cost;
}

int64_t TrainingStep::LargestBatch(int64_t bytes) {
  const auto fits = [&](int64_t batch) { return Count(batch).memory.peak() <= bytes; };
  if (!fits(1)) return 0;
  // More sequences never take less memory: double, then halve the distance.
  int64_t fitting = 1, too_many = 2;
  while (fits(too_many)) {
    fitting = too_many;
    too_many *= 2;
  }
  while (too_many - fitting > 1) {
    const int64_t middle = fitting + (too_many - fitting) / 2;
    (fits(middle) ? fitting : too_many) = middle;
  }
  return fitting;
}

}  // namespace tost::roofline
