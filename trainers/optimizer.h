// AdamW over the buckets of a ParameterSet.
#ifndef TOST_TRAINERS_OPTIMIZER_H_
#define TOST_TRAINERS_OPTIMIZER_H_

#include <cstdint>

#include "autograd/parameter.h"
#include "trainers/checkpoint.h"

namespace tost::train {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;  // of buckets that decay
  double clip_norm = 1.0;     // largest norm of the whole gradient; 0: no clipping
};

struct StepResult {
  double gradient_norm = 0;  // before clipping
  bool skipped = false;      // the norm was not finite; nothing has changed
};

class AdamW {
 public:
  // Allocates the moments, zero. `params` is finalized and outlives the optimizer.
  AdamW(ParameterSet& params, AdamWOptions options);

  // One update from the gathered gradients, those of parameters without part in the loss being
  // zero. Gradients are scaled by min(1, clip_norm / (norm + 1e-6)), as torch's clip_grad_norm_
  // does.
  StepResult Step(float learning_rate);

  // Updates made, skipped ones not counted: what the bias correction depends on.
  int64_t updates() const { return updates_; }
  void set_updates(int64_t updates) { updates_ = updates; }
  Moments& moments() { return moments_; }

 private:
  ParameterSet& params_;
  AdamWOptions options_;
  int64_t updates_ = 0;
  Moments moments_;
};

}  // namespace tost::train

#endif  // TOST_TRAINERS_OPTIMIZER_H_
