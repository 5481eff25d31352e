#include "trainers/optimizer.h"

#include <utility>

#include "ops/optimizer_kernels.h"

namespace tost::train {

Optimizer::Optimizer(ParameterSet& params, OptimizerOptions options)
    : options_(std::move(options)),
      params_(params),
      scalars_(ops::NewUpdateScalars(params.device())) {
  for (size_t b = 0; b < params.buckets().size(); ++b) {
    const Bucket& bucket = params.buckets()[b];
    const size_t first_run = runs_.size();
    for (size_t i = 0; i < bucket.parameters.size(); ++i) {
      const Parameter& parameter = *bucket.parameters[i];
      if (!parameter.trained()) continue;
      const bool decays =
          options_.decays ? options_.decays(parameter) : parameter.decay() == Decay::kYes;
      const Run run{.bucket = b,
                    .offset = bucket.offsets[i],
                    .count = parameter.shape().numel(),
                    .rate_factor = options_.rate_factor ? options_.rate_factor(parameter) : 1,
                    .weight_decay = decays ? options_.weight_decay : 0};
      Run* last = runs_.size() > first_run ? &runs_.back() : nullptr;
      if (last != nullptr && last->rate_factor == run.rate_factor &&
          last->weight_decay == run.weight_decay && last->offset + last->count == run.offset) {
        last->count += run.count;
      } else {
        runs_.push_back(run);
      }
    }
  }
}

std::vector<Tensor> Optimizer::ZerosFor(const ParameterSet& params) {
  std::vector<Tensor> zeros;
  for (const Bucket& bucket : params.buckets()) {
    zeros.push_back(Tensor::Zeros(bucket.values.shape(), DType::kFloat32, params.device()));
  }
  return zeros;
}

Tensor Optimizer::PartOf(const Tensor& flat, const Run& run) {
  return flat.defined() ? flat.View(run.offset, Shape{run.count}) : Tensor();
}

void Optimizer::Step(float learning_rate) {
  params_.ZeroUnwrittenGradients();
  Tensor squares = Tensor::Zeros({}, DType::kFloat64, params_.device());
  for (const Bucket& bucket : params_.buckets()) {
    ops::SquaredNorm(bucket.gradient, /*add=*/true, squares);
  }
  ops::BeginUpdate(
      {.clip_norm = options_.clip_norm, .beta1 = options_.beta1, .beta2 = options_.beta2}, squares,
      scalars_);
  for (const Run& run : runs_) {
    const Bucket& bucket = params_.buckets()[run.bucket];
    RunTensors tensors{.gradient = PartOf(bucket.gradient, run),
                       .values = PartOf(bucket.values, run),
                       .compute = PartOf(bucket.compute, run)};
    Apply(run, learning_rate * run.rate_factor, tensors);
  }
}

StepResult Optimizer::Result() const {
  const ops::UpdateScalars scalars = ops::ReadUpdateScalars(scalars_);
  return {.gradient_norm = scalars.gradient_norm, .skipped = scalars.finite == 0};
}

int64_t Optimizer::updates() const {
  return static_cast<int64_t>(ops::ReadUpdateScalars(scalars_).updates);
}

void Optimizer::set_updates(int64_t updates) {
  scalars_ = ops::NewUpdateScalars(params_.device(), updates);
}

AdamW::AdamW(ParameterSet& params, OptimizerOptions options)
    : Optimizer(params, std::move(options)) {
  moments_ = {.first = ZerosFor(params), .second = ZerosFor(params)};
}

void AdamW::Apply(const Run& run, double learning_rate, RunTensors& tensors) {
  Tensor first = PartOf(moments_.first[run.bucket], run);
  Tensor second = PartOf(moments_.second[run.bucket], run);
  ops::AdamW({.learning_rate = learning_rate,
              .beta1 = options_.beta1,
              .beta2 = options_.beta2,
              .epsilon = options_.epsilon,
              .weight_decay = run.weight_decay},
             scalars(), tensors.gradient, tensors.values, first, second, tensors.compute);
}

Sgd::Sgd(ParameterSet& params, OptimizerOptions options) : Optimizer(params, std::move(options)) {
  moments_ = {.first = ZerosFor(params)};
}

void Sgd::Apply(const Run& run, double learning_rate, RunTensors& tensors) {
  Tensor momentum = PartOf(moments_.first[run.bucket], run);
  ops::Sgd({.learning_rate = learning_rate,
            .momentum = options_.momentum,
            .weight_decay = run.weight_decay},
           scalars(), tensors.gradient, tensors.values, momentum, tensors.compute);
}

}  // namespace tost::train
