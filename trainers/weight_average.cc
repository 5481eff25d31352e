#include "trainers/weight_average.h"

#include "absl/functional/function_ref.h"
#include "ops/optimizer_kernels.h"

namespace tost::train {
namespace {

void CopyInto(const Tensor& from, Tensor& to) {
  RuntimeOf(to.device())
      .Copy(to.mutable_raw(), from.raw(), static_cast<size_t>(from.numel()) * SizeOf(from.dtype()));
}

// Calls visit(weights, average) for each pair of flat tensors.
void ForEachPair(ParameterSet& params, WeightValues& average,
                 absl::FunctionRef<void(Tensor& weights, Tensor& average)> visit) {
  for (size_t i = 0; i < params.buckets().size(); ++i) {
    visit(params.buckets()[i].values, average.buckets[i]);
  }
  for (size_t i = 0; i < params.states().size(); ++i) {
    Tensor state = params.states()[i].value();
    visit(state, average.states[i]);
  }
}

}  // namespace

WeightAverage::WeightAverage(ParameterSet& params, double decay) : params_(params), decay_(decay) {
  for (const Bucket& bucket : params.buckets()) {
    values_.buckets.push_back(
        Tensor::Empty(bucket.values.shape(), bucket.values.dtype(), params.device()));
  }
  for (const State& state : params.states()) {
    values_.states.push_back(Tensor::Empty(state.shape(), state.value().dtype(), params.device()));
  }
  Restart();
}

void WeightAverage::Update(const Tensor& scalars) {
  ForEachPair(params_, values_, [&](Tensor& weights, Tensor& average) {
    ops::ExponentialMovingAverage(decay_, scalars, weights, average);
  });
}

void WeightAverage::Restart() {
  ForEachPair(params_, values_,
              [](Tensor& weights, Tensor& average) { CopyInto(weights, average); });
}

void WeightAverage::Swap() {
  ForEachPair(params_, values_, [this](Tensor& weights, Tensor& average) {
    Tensor kept = Tensor::Empty(weights.shape(), weights.dtype(), params_.device());
    CopyInto(weights, kept);
    CopyInto(average, weights);
    CopyInto(kept, average);
  });
  params_.RefreshComputeCopies();
}

}  // namespace tost::train
