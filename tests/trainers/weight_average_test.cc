#include "trainers/weight_average.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "ops/optimizer_kernels.h"

namespace tost::train {
namespace {

void Set(const Tensor& tensor, float value) {
  Tensor target = tensor;
  for (int64_t i = 0; i < target.numel(); ++i) target.mutable_data<float>()[i] = value;
}

TEST(WeightAverage, FollowsParametersAndStatesAndTakesTheirPlace) {
  ParameterSet params(Device::Cpu(), 1);
  const Parameter& weight = params.Root().Add("w", {3}, Init::Ones(), Decay::kYes);
  const State& mean = params.Root().AddState("running_mean", {2}, Init::Zeros());
  params.Finalize(DType::kBFloat16);
  WeightAverage average(params, 0.75);
  Set(weight.value(), 5);
  Set(mean.value(), 4);
  const Tensor made = ops::NewUpdateScalars(Device::Cpu());
  Tensor skipped = ops::NewUpdateScalars(Device::Cpu());
  ops::BeginUpdate({}, Tensor::Scalar(NAN, DType::kFloat64), skipped);
  average.Update(made);
  average.Update(skipped);  // changes nothing
  EXPECT_EQ(weight.value().ToHost(), std::vector<float>(3, 5.0f));

  average.Swap();
  EXPECT_EQ(weight.value().ToHost(), std::vector<float>(3, 2.0f));  // 0.75 · 1 + 0.25 · 5
  EXPECT_EQ(weight.In(DType::kBFloat16).ToHost(), std::vector<float>(3, 2.0f));
  EXPECT_EQ(mean.value().ToHost(), std::vector<float>(2, 1.0f));
  average.Swap();
  EXPECT_EQ(weight.value().ToHost(), std::vector<float>(3, 5.0f));

  average.Restart();
  average.Swap();
  EXPECT_EQ(weight.value().ToHost(), std::vector<float>(3, 5.0f));
}

}  // namespace
}  // namespace tost::train
