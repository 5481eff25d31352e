#include "autograd/parameter.h"

#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/autograd/tiny_ops.h"

namespace tost {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

std::vector<std::string> Names(const Bucket& bucket) {
  std::vector<std::string> names;
  for (const Parameter* parameter : bucket.parameters) names.push_back(parameter->name());
  return names;
}

void WriteGradient(Parameter& parameter, float value) {
  parameter.grad().Write(parameter.shape(), [&](Tensor& out, bool add) {
    tiny::Write(out, add, [&](int64_t) { return static_cast<double>(value); });
  });
}

class Layout : public testing::Test {
 protected:
  Layout()
      : scope_(params_.Root() / "h" / "3"),
        weight_(scope_.Add("weight", {3, 5}, Init::Normal(0.02f), Decay::kYes)),
        bias_(scope_.Add("bias", {5}, Init::Zeros(), Decay::kNo)),
        last_(params_.Root().Add("last", {7, 2}, Init::Ones(), Decay::kYes)),
        scale_(params_.Root().Add("scale", {}, Init::Constant(0.5f), Decay::kNo)) {}

  ParameterSet params_{Device::Cpu(), /*seed=*/1};
  ParameterScope scope_;
  Parameter& weight_;
  Parameter& bias_;
  Parameter& last_;
  Parameter& scale_;
};

TEST_F(Layout, NamesAreJoinedByDots) {
  EXPECT_EQ(weight_.name(), "h.3.weight");
  EXPECT_EQ(last_.name(), "last");
  EXPECT_EQ(params_.Find("h.3.bias"), &bias_);
  EXPECT_EQ(params_.Find("h.3"), nullptr);
}

TEST_F(Layout, ParametersAreListedInOrderOfDeclaration) {
  std::vector<std::string> names;
  for (const Parameter& parameter : params_.parameters()) names.push_back(parameter.name());
  EXPECT_THAT(names, ElementsAre("h.3.weight", "h.3.bias", "last", "scale"));
  EXPECT_EQ(params_.element_count(), 15 + 5 + 14 + 1);
}

TEST_F(Layout, BucketsAreSplitByDecayInReverseOrderAndPadded) {
  params_.Finalize();
  ASSERT_EQ(params_.buckets().size(), 2u);
  const Bucket& decayed = params_.buckets()[0];
  const Bucket& plain = params_.buckets()[1];
  EXPECT_EQ(decayed.decay, Decay::kYes);
  EXPECT_EQ(plain.decay, Decay::kNo);
  EXPECT_THAT(Names(decayed), ElementsAre("last", "h.3.weight"));
  EXPECT_THAT(Names(plain), ElementsAre("scale", "h.3.bias"));
  EXPECT_THAT(decayed.offsets, ElementsAre(0, 14));
  EXPECT_EQ(decayed.values.shape(), Shape{128});
  const std::vector<float> values = decayed.values.ToHost();
  EXPECT_THAT(std::vector(values.begin() + 29, values.end()), Each(0.0f));  // the padding
}

TEST_F(Layout, ValuesAreViewsOfTheBucket) {
  params_.Finalize();
  const Bucket& decayed = params_.buckets()[0];
  EXPECT_EQ(weight_.value().raw(), decayed.values.raw() + 14 * sizeof(float));
  EXPECT_EQ(weight_.value().shape(), (Shape{3, 5}));
  EXPECT_THAT(last_.value().ToHost(), Each(1.0f));
  EXPECT_THAT(bias_.value().ToHost(), Each(0.0f));
  EXPECT_EQ(scale_.value().Item(), 0.5);
}

TEST_F(Layout, GradientsGatherInTheBucket) {
  params_.Finalize();
  params_.StartStep();
  WriteGradient(weight_, 2);
  WriteGradient(weight_, 3);  // a second use adds
  const std::vector<float> gradient = params_.buckets()[0].gradient.ToHost();
  EXPECT_THAT(std::vector(gradient.begin() + 14, gradient.begin() + 29), Each(5.0f));
  EXPECT_THAT(weight_.grad().value().ToHost(), Each(5.0f));
}

TEST_F(Layout, StartStepMakesTheNextWriteSet) {
  params_.Finalize();
  params_.StartStep();
  const std::byte* storage = params_.buckets()[0].gradient.raw();
  WriteGradient(weight_, 2);
  params_.StartStep();
  WriteGradient(weight_, 3);
  EXPECT_THAT(weight_.grad().value().ToHost(), Each(3.0f));
  EXPECT_EQ(params_.buckets()[0].gradient.raw(), storage);
}

TEST_F(Layout, UnwrittenGradientsBecomeZeroAndWrittenOnesStay) {
  params_.Finalize();
  params_.StartStep();
  WriteGradient(weight_, 2);
  WriteGradient(last_, 4);
  params_.StartStep();
  WriteGradient(weight_, 3);
  params_.ZeroUnwrittenGradients();
  EXPECT_THAT(weight_.grad().value().ToHost(), Each(3.0f));
  EXPECT_THAT(last_.grad().value().ToHost(), Each(0.0f));
  EXPECT_THAT(bias_.grad().value().ToHost(), Each(0.0f));
}

TEST_F(Layout, MatricesHaveABFloat16CopyThatSharesTheCell) {
  params_.Finalize(DType::kBFloat16);
  const Tensor& copy = weight_.In(DType::kBFloat16);
  EXPECT_EQ(copy.dtype(), DType::kBFloat16);
  EXPECT_EQ(copy.grad(), weight_.value().grad());
  EXPECT_EQ(copy.ToHost(), Converted(weight_.value(), DType::kBFloat16).ToHost());
  EXPECT_EQ(weight_.In(DType::kFloat32).raw(), weight_.value().raw());
  EXPECT_EQ(bias_.In(DType::kBFloat16).raw(), bias_.value().raw());  // vectors are not rounded
}

TEST_F(Layout, RefreshBringsTheCopiesInLine) {
  params_.Finalize(DType::kBFloat16);
  tiny::Write(params_.buckets()[0].values, false,
              [](int64_t i) { return static_cast<double>(i) / 256 + 1; });
  params_.RefreshComputeCopies();
  EXPECT_EQ(weight_.In(DType::kBFloat16).ToHost(),
            Converted(weight_.value(), DType::kBFloat16).ToHost());
}

TEST_F(Layout, WithoutAComputeTypeThereIsNoCopy) {
  params_.Finalize();
  EXPECT_EQ(weight_.In(DType::kBFloat16).raw(), weight_.value().raw());
  EXPECT_FALSE(params_.buckets()[0].compute.defined());
}

using LayoutDeathTest = Layout;

TEST_F(LayoutDeathTest, MisuseIsNamed) {
  EXPECT_DEATH(scope_.Add("bias", {1}, Init::Zeros(), Decay::kNo),
               "parameter h.3.bias is declared twice");
  EXPECT_DEATH(weight_.value(), "h.3.weight has no value before ParameterSet::Finalize");
  EXPECT_DEATH(params_.StartStep(), "StartStep before Finalize");
  params_.Finalize();
  EXPECT_DEATH(params_.Finalize(), "Finalize was already called");
  EXPECT_DEATH(scope_.Add("late", {1}, Init::Zeros(), Decay::kNo),
               "declaring h.3.late after Finalize");
}

TEST(ParameterSet, ALargeSetFillsSeveralBuckets) {
  ParameterSet params(Device::Cpu(), 1);
  const Shape half{2048, 2048};  // half a bucket's 8·2²⁰ elements
  for (const char* name : {"a", "b", "c"}) {
    params.Root().Add(name, half, Init::Zeros(), Decay::kYes);
  }
  params.Finalize();
  ASSERT_EQ(params.buckets().size(), 2u);
  EXPECT_THAT(Names(params.buckets()[0]), ElementsAre("c", "b"));
  EXPECT_THAT(Names(params.buckets()[1]), ElementsAre("a"));
}

TEST(ParameterSet, StatesHaveValuesAndNoPlaceInTheBuckets) {
  ParameterSet params(Device::Cpu(), 1);
  const ParameterScope norm = params.Root() / "norm";
  norm.Add("weight", {3}, Init::Ones(), Decay::kNo);
  State& variance = norm.AddState("running_var", {3}, Init::Constant(2));
  EXPECT_DEATH(variance.value(), "norm.running_var has no value before ParameterSet::Finalize");
  EXPECT_DEATH(norm.Add("running_var", {3}, Init::Ones(), Decay::kNo), "declared twice");
  EXPECT_DEATH(norm.AddState("weight", {3}, Init::Ones()), "declared twice");
  params.Finalize();
  ASSERT_EQ(params.states().size(), 1u);
  EXPECT_EQ(params.states()[0].name(), "norm.running_var");
  EXPECT_THAT(variance.value().ToHost(), ElementsAre(2, 2, 2));
  EXPECT_EQ(variance.value().grad(), nullptr);
  EXPECT_EQ(params.element_count(), 3);
  EXPECT_EQ(params.Find("norm.running_var"), nullptr);
}

TEST(ParameterSet, AnEmptySetIsFine) {
  ParameterSet params(Device::Cpu(), 1);
  params.Finalize();
  params.StartStep();
  params.ZeroUnwrittenGradients();
  EXPECT_TRUE(params.buckets().empty());
  EXPECT_EQ(params.element_count(), 0);
}

std::vector<float> InitialValues(uint64_t seed, const std::vector<std::string>& names,
                                 const std::string& wanted, Init init = Init::Normal(1)) {
  ParameterSet params(Device::Cpu(), seed);
  for (const std::string& name : names) params.Root().Add(name, {40, 25}, init, Decay::kYes);
  params.Finalize();
  return params.Find(wanted)->value().ToHost();
}

TEST(Init, DependsOnSeedAndNameOnly) {
  const std::vector<float> alone = InitialValues(1, {"a"}, "a");
  EXPECT_EQ(InitialValues(1, {"b", "a", "c"}, "a"), alone);
  EXPECT_NE(InitialValues(2, {"a"}, "a"), alone);
  EXPECT_NE(InitialValues(1, {"a", "b"}, "b"), alone);
}

TEST(Init, NormalHasItsMomentsAndIsNotTruncated) {
  ParameterSet params(Device::Cpu(), 3);
  constexpr double kDeviation = 0.02;
  constexpr int64_t kCount = 200'001;  // odd: the last block of four is cut
  const Parameter& p =
      params.Root().Add("p", {kCount}, Init::Normal(static_cast<float>(kDeviation)), Decay::kNo);
  params.Finalize();
  double moments[5] = {};
  double largest = 0;
  for (double x : p.value().ToHost<double>()) {
    for (int k = 1; k <= 4; ++k) moments[k] += std::pow(x / kDeviation, k) / kCount;
    largest = std::max(largest, std::abs(x / kDeviation));
  }
  // Five standard errors: variances of z, z², z³, z⁴ are 1, 2, 15, 96.
  const double error = 5 / std::sqrt(static_cast<double>(kCount));
  EXPECT_NEAR(moments[1], 0, error);
  EXPECT_NEAR(moments[2], 1, error * std::sqrt(2.0));
  EXPECT_NEAR(moments[3], 0, error * std::sqrt(15.0));
  EXPECT_NEAR(moments[4], 3, error * std::sqrt(96.0));
  EXPECT_GT(largest, 3.5);  // probability of none beyond: about e^-93
  EXPECT_TRUE(std::isfinite(largest));
}

TEST(Init, UniformFillsItsInterval) {
  const std::vector<float> values = InitialValues(1, {"a"}, "a", Init::Uniform(0.5f));
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  EXPECT_GE(*low, -0.5f);
  EXPECT_LT(*high, 0.5f);
  // 1,000 draws leave neither outer hundredth of the interval empty, but for odds of e^-10.
  EXPECT_LT(*low, -0.49f);
  EXPECT_GT(*high, 0.49f);
}

}  // namespace
}  // namespace tost
