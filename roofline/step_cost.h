// What one update of a model costs: its launches and its memory.
#ifndef TOST_ROOFLINE_STEP_COST_H_
#define TOST_ROOFLINE_STEP_COST_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "autograd/parameter.h"
#include "autograd/tensor.h"
#include "roofline/counting_device.h"

namespace tost::roofline {

// Bytes on the device. The first three stay from update to update.
struct StepMemory {
  int64_t parameters = 0;  // values, bfloat16 copies, statistics
  int64_t gradients = 0;
  int64_t optimizer = 0;    // moments
  int64_t activations = 0;  // what one micro-batch has at most besides, workspace included

  int64_t peak() const { return parameters + gradients + optimizer + activations; }
};

struct StepCost {
  std::vector<Launch> forward, backward, update;
  // FLOPs of the model: three times those of a forward pass, as a backward pass forms two products
  // for each one. What is computed anew in backward does not count.
  int64_t model_flops = 0;
  StepMemory memory;
};

// A model and its optimizer on the counting device, which takes no memory for them.
//
//   TrainingStep step(DType::kBFloat16,
//                     [&](ParameterScope scope) {
//                       auto model = std::make_shared<Model>(scope, config);
//                       return [=](int64_t batch) { return model->Loss(…); };
//                     },
//                     [](ParameterSet& params) { … return [=] { optimizer->Step(rate); }; });
//   step.Count(60).memory.peak();
class TrainingStep {
 public:
  using Loss = std::function<Tensor(int64_t batch)>;  // a scalar on CountingDevice()
  using Update = std::function<void()>;

  // `declare` makes the model; `optimizer` is called once its parameters exist.
  TrainingStep(DType compute_dtype, const std::function<Loss(ParameterScope)>& declare,
               const std::function<Update(ParameterSet&)>& optimizer);
  TrainingStep(const TrainingStep&) = delete;
  TrainingStep& operator=(const TrainingStep&) = delete;

  // An update of one micro-batch. CHECKs batch ≥ 1.
  StepCost Count(int64_t batch);
  // The largest batch whose update takes at most so many bytes; 0 when not even one does.
  int64_t LargestBatch(int64_t bytes);

  int64_t parameter_count() const { return params_.element_count(); }

 private:
  ParameterSet params_;
  Loss loss_;
  Update update_;
  StepMemory memory_;  // without activations
};

}  // namespace tost::roofline

#endif  // TOST_ROOFLINE_STEP_COST_H_
