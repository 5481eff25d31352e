// Optimizers over the buckets of a ParameterSet.
#ifndef TOST_TRAINERS_OPTIMIZER_H_
#define TOST_TRAINERS_OPTIMIZER_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "autograd/parameter.h"
#include "trainers/checkpoint.h"

namespace tost::train {

struct StepResult {
  double gradient_norm = 0;  // before clipping
  bool skipped = false;      // the norm was not finite; nothing has changed
};

struct OptimizerOptions {
  double beta1 = 0.9;         // AdamW
  double beta2 = 0.95;        // AdamW
  double epsilon = 1e-8;      // AdamW
  double momentum = 0.9;      // SGD
  double weight_decay = 0.1;  // of parameters that decay
  double clip_norm = 1.0;     // largest norm of the whole gradient; 0: no clipping
  // Whether a parameter decays; none: as it was declared.
  std::function<bool(const Parameter&)> decays;
  // What a parameter's learning rate is multiplied by; none: 1 everywhere.
  std::function<double(const Parameter&)> rate_factor;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // One update from the gathered gradients, those of parameters without part in the loss being
  // zero. Gradients are scaled by min(1, clip_norm / (norm + 1e-6)), as torch's clip_grad_norm_
  // does. Frozen parameters stay as they are. The host waits for nothing.
  void Step(float learning_rate);
  // What became of the last Step; waits for it.
  StepResult Result() const;
  // Its ops::UpdateScalars, on the device.
  const Tensor& scalars() const { return scalars_; }

  // Updates made, skipped ones not counted: what AdamW's bias correction depends on. Waits.
  int64_t updates() const;
  void set_updates(int64_t updates);
  Moments& moments() { return moments_; }

 protected:
  // Allocates no moments. `params` is finalized, its frozen parameters are known, and it outlives
  // the optimizer.
  Optimizer(ParameterSet& params, OptimizerOptions options);

  // A run of parameters of one bucket that are updated alike.
  struct Run {
    size_t bucket = 0;
    int64_t offset = 0;
    int64_t count = 0;
    double rate_factor = 1;
    double weight_decay = 0;
  };
  struct RunTensors {
    Tensor gradient, values, compute;  // `compute` may be undefined
  };
  // Part of a flat tensor that is aligned with the buckets; of an undefined one, an undefined one.
  static Tensor PartOf(const Tensor& flat, const Run& run);
  virtual void Apply(const Run& run, double learning_rate, RunTensors& tensors) = 0;

  static std::vector<Tensor> ZerosFor(const ParameterSet& params);

  OptimizerOptions options_;
  Moments moments_;

 private:
  ParameterSet& params_;
  std::vector<Run> runs_;
  Tensor scalars_;
};

class AdamW : public Optimizer {
 public:
  // Allocates the moments, zero.
  AdamW(ParameterSet& params, OptimizerOptions options);

 private:
  void Apply(const Run& run, double learning_rate, RunTensors& tensors) override;
};

// Its momentum is moments().first; there is no second.
class Sgd : public Optimizer {
 public:
  Sgd(ParameterSet& params, OptimizerOptions options);

 private:
  void Apply(const Run& run, double learning_rate, RunTensors& tensors) override;
};

}  // namespace tost::train

#endif  // TOST_TRAINERS_OPTIMIZER_H_
