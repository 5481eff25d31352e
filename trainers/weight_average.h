// A running average of a model's weights (EMA), which often classifies better than the weights.
#ifndef TOST_TRAINERS_WEIGHT_AVERAGE_H_
#define TOST_TRAINERS_WEIGHT_AVERAGE_H_

#include "autograd/parameter.h"
#include "trainers/checkpoint.h"

namespace tost::train {

// average ← decay · average + (1 − decay) · weights after every update, of all parameters and all
// states (running statistics), as timm's ModelEma does. It begins as the weights are, so that an
// average over 1/(1 − decay) updates is only reached after some multiple of these.
class WeightAverage {
 public:
  // `params` is finalized and outlives the average.
  WeightAverage(ParameterSet& params, double decay);

  // Leaves everything as it is when `scalars` (ops::UpdateScalars of the update) are not finite.
  void Update(const Tensor& scalars);
  // Starts again from the weights as they are now (after loading them).
  void Restart();
  // Exchanges the weights and their average: what evaluates the average, called in pairs.
  void Swap();
  WeightValues& values() { return values_; }

 private:
  ParameterSet& params_;
  double decay_;
  WeightValues values_;
};

}  // namespace tost::train

#endif  // TOST_TRAINERS_WEIGHT_AVERAGE_H_
