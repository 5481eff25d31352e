#include "trainers/optimizer.h"

#include <algorithm>
#include <cmath>

#include "ops/optimizer_kernels.h"

namespace tost::train {

AdamW::AdamW(ParameterSet& params, AdamWOptions options) : params_(params), options_(options) {
  for (const Bucket& bucket : params.buckets()) {
    moments_.first.push_back(
        Tensor::Zeros(bucket.values.shape(), DType::kFloat32, params.device()));
    moments_.second.push_back(
        Tensor::Zeros(bucket.values.shape(), DType::kFloat32, params.device()));
  }
}

StepResult AdamW::Step(float learning_rate) {
  params_.ZeroUnwrittenGradients();
  double squares = 0;
  for (const Bucket& bucket : params_.buckets()) squares += ops::SquaredNorm(bucket.gradient);
  const StepResult result{.gradient_norm = std::sqrt(squares), .skipped = !std::isfinite(squares)};
  if (result.skipped) return result;

  ++updates_;
  ops::AdamWStep step{.learning_rate = learning_rate,
                      .beta1 = options_.beta1,
                      .beta2 = options_.beta2,
                      .epsilon = options_.epsilon,
                      .step = updates_};
  if (options_.clip_norm > 0) {
    step.clip_factor = std::min(1.0, options_.clip_norm / (result.gradient_norm + 1e-6));
  }
  for (size_t i = 0; i < params_.buckets().size(); ++i) {
    Bucket& bucket = params_.buckets()[i];
    step.weight_decay = bucket.decay == Decay::kYes ? options_.weight_decay : 0;
    ops::AdamW(step, bucket.gradient, bucket.values, moments_.first[i], moments_.second[i],
               bucket.compute);
  }
  return result;
}

}  // namespace tost::train
