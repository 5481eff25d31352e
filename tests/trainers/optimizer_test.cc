#include "trainers/optimizer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/base/philox.h"
#include "gtest/gtest.h"

namespace tost::train {
namespace {

// A decayed matrix, a vector that is not decayed, and a matrix that no loss touches.
struct Parameters {
  ParameterSet set{Device::Cpu(), 1};
  Parameter& matrix;
  Parameter& vector;
  Parameter& unused;

  explicit Parameters(DType compute = DType::kFloat32)
      : matrix(set.Root().Add("matrix", {3, 4}, Init::Normal(1), Decay::kYes)),
        vector(set.Root().Add("vector", {5}, Init::Ones(), Decay::kNo)),
        unused(set.Root().Add("unused", {2}, Init::Ones(), Decay::kYes)) {
    set.Finalize(compute);
  }

  // A gradient of the given size for all but the unused one.
  void FakeBackward(uint32_t update, float size) {
    set.StartStep();
    const RandomKey key{.seed = 5, .step = update};
    for (Parameter* parameter : {&matrix, &vector}) {
      parameter->grad().Write(parameter->shape(), [&](Tensor& out, bool) {
        float* g = out.mutable_data<float>();
        for (int64_t i = 0; i < out.numel(); ++i) g[i] = size * (Uniform(key, 0, i) - 0.5f);
      });
    }
  }
  double GradientNorm() const {
    double squares = 0;
    for (const Parameter* parameter : {&matrix, &vector}) {
      for (double g : parameter->grad().value().ToHost<double>()) squares += g * g;
    }
    return std::sqrt(squares);
  }
  std::vector<float> All() const {
    std::vector<float> all;
    for (const Bucket& bucket : set.buckets()) {
      for (float value : bucket.values.ToHost()) all.push_back(value);
    }
    return all;
  }
};

// The first step of Adam moves by lr · g/(|g| + ε'), whatever the clipping: sign(g) nearly.
TEST(AdamW, FirstStepMovesByTheRateAndDecaysOnlyWhatDecays) {
  Parameters p;
  AdamW adamw(p.set, {.weight_decay = 0.5});
  const std::vector<float> matrix = p.matrix.value().ToHost();
  p.FakeBackward(1, 100);
  adamw.Step(0.01f);
  const StepResult result = adamw.Result();
  EXPECT_FALSE(result.skipped);
  EXPECT_NEAR(result.gradient_norm, p.GradientNorm(), 1e-5 * result.gradient_norm);
  EXPECT_EQ(adamw.updates(), 1);
  // ε = 10⁻⁸ beside clipped gradients above 10⁻⁴.
  constexpr float kTolerance = 1e-6f;
  const std::vector<float> after = p.matrix.value().ToHost(), g = p.matrix.grad().value().ToHost();
  for (size_t i = 0; i < after.size(); ++i) {
    EXPECT_NEAR(after[i], matrix[i] * (1 - 0.01f * 0.5f) - std::copysign(0.01f, g[i]), kTolerance);
  }
  const std::vector<float> vector = p.vector.value().ToHost(), h = p.vector.grad().value().ToHost();
  for (size_t i = 0; i < vector.size(); ++i) {
    EXPECT_NEAR(vector[i], 1 - std::copysign(0.01f, h[i]), kTolerance);
  }
  // No part in the loss: gradient zero, decay only.
  for (float value : p.unused.value().ToHost()) EXPECT_FLOAT_EQ(value, 1 - 0.01f * 0.5f);
}

TEST(AdamW, GradientsAboveTheNormAreScaledDownToIt) {
  // After a common first step, a second gradient ten times larger: clipped to the same norm it has
  // the same effect.
  for (bool clip : {true, false}) {
    std::vector<std::vector<float>> results;
    for (float size : {1.0f, 10.0f}) {
      Parameters p;
      AdamW adamw(p.set, {.clip_norm = clip ? 0.25 : 0.0});
      p.FakeBackward(1, 1);
      adamw.Step(0.01f);
      p.FakeBackward(2, size);
      EXPECT_GT(p.GradientNorm(), 0.25);
      adamw.Step(0.01f);
      results.push_back(p.All());
    }
    double difference = 0;
    for (size_t i = 0; i < results[0].size(); ++i) {
      difference = std::max<double>(difference, std::abs(results[0][i] - results[1][i]));
    }
    // clip/(norm + 10⁻⁶) leaves a relative difference of 10⁻⁵ in gradients of moves of 0.01.
    if (clip) {
      EXPECT_LT(difference, 1e-6);
    } else {
      EXPECT_GT(difference, 1e-4);
    }
  }
}

TEST(AdamW, AGradientThatIsNotFiniteChangesNothing) {
  for (float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    Parameters p(DType::kBFloat16);
    AdamW adamw(p.set, {});
    p.FakeBackward(1, 1);
    adamw.Step(0.01f);
    const std::vector<float> values = p.All();
    const std::vector<float> copy = p.set.buckets()[0].compute.ToHost();
    const std::vector<float> first = adamw.moments().first[0].ToHost();
    const std::vector<float> second = adamw.moments().second[0].ToHost();
    p.FakeBackward(2, 1);
    p.vector.grad().Write(p.vector.shape(),
                          [&](Tensor& out, bool) { out.mutable_data<float>()[4] = bad; });
    adamw.Step(0.01f);
    const StepResult result = adamw.Result();
    EXPECT_TRUE(result.skipped);
    EXPECT_FALSE(std::isfinite(result.gradient_norm));
    EXPECT_EQ(adamw.updates(), 1);
    EXPECT_EQ(p.All(), values);
    EXPECT_EQ(p.set.buckets()[0].compute.ToHost(), copy);
    EXPECT_EQ(adamw.moments().first[0].ToHost(), first);
    EXPECT_EQ(adamw.moments().second[0].ToHost(), second);
  }
}

// Gradients of size 1 move by the rate at AdamW's first step, whatever they are.
TEST(AdamW, RateFactorsScaleTheRateParameterByParameter) {
  Parameters p;
  AdamW adamw(p.set, {.weight_decay = 0, .rate_factor = [](const Parameter& parameter) {
                        return parameter.name() == "matrix" ? 0.25 : 1.0;
                      }});
  const std::vector<float> matrix = p.matrix.value().ToHost();
  p.FakeBackward(1, 100);
  adamw.Step(0.01f);
  constexpr float kTolerance = 1e-6f;
  for (size_t i = 0; i < matrix.size(); ++i) {
    EXPECT_NEAR(std::abs(p.matrix.value().ToHost()[i] - matrix[i]), 0.0025f, kTolerance);
  }
  for (float value : p.vector.value().ToHost()) {
    EXPECT_NEAR(std::abs(value - 1), 0.01f, kTolerance);
  }
}

TEST(AdamW, FrozenParametersAreLeftAloneAndHaveNoPartInTheNorm) {
  Parameters p(DType::kBFloat16);
  p.unused.Freeze();
  p.matrix.Freeze();
  EXPECT_FALSE(p.matrix.trained());
  EXPECT_EQ(p.matrix.In(DType::kBFloat16).grad(), nullptr);
  AdamW adamw(p.set, {.weight_decay = 0.5});
  const std::vector<float> matrix = p.matrix.value().ToHost();
  p.set.StartStep();
  p.vector.grad().Write(p.vector.shape(), [](Tensor& out, bool) {
    for (int64_t i = 0; i < out.numel(); ++i) out.mutable_data<float>()[i] = 2;
  });
  adamw.Step(0.01f);
  EXPECT_DOUBLE_EQ(adamw.Result().gradient_norm, std::sqrt(5 * 4.0));
  EXPECT_EQ(p.matrix.value().ToHost(), matrix);
  EXPECT_EQ(p.unused.value().ToHost(), std::vector<float>(2, 1.0f));
  EXPECT_NE(p.vector.value().ToHost(), std::vector<float>(5, 1.0f));
}

TEST(AdamW, EverythingDecaysWhenAskedTo) {
  Parameters p;
  AdamW adamw(p.set, {.weight_decay = 0.5, .decays = [](const Parameter&) { return true; }});
  p.set.StartStep();  // no gradients: decay alone
  adamw.Step(0.01f);
  for (float value : p.vector.value().ToHost()) EXPECT_FLOAT_EQ(value, 1 - 0.01f * 0.5f);
}

TEST(Sgd, MovesAgainstTheGradientAndKeepsItsMomentum) {
  Parameters p;
  Sgd sgd(p.set, {.momentum = 0.5, .weight_decay = 0, .clip_norm = 0});
  EXPECT_TRUE(sgd.moments().second.empty());
  float expected = 1;
  for (const auto& [gradient, momentum] : {std::pair(2.0f, 2.0f), std::pair(4.0f, 5.0f)}) {
    p.set.StartStep();
    p.vector.grad().Write(p.vector.shape(), [g = gradient](Tensor& out, bool) {
      for (int64_t i = 0; i < out.numel(); ++i) out.mutable_data<float>()[i] = g;
    });
    sgd.Step(0.25f);
    expected -= 0.25f * momentum;
    EXPECT_EQ(p.vector.value().ToHost(), std::vector<float>(5, expected));
  }
}

TEST(AdamW, ComputeCopiesFollowTheValues) {
  Parameters p(DType::kBFloat16);
  AdamW adamw(p.set, {});
  p.FakeBackward(1, 1);
  adamw.Step(0.1f);
  EXPECT_EQ(p.matrix.In(DType::kBFloat16).ToHost(),
            Converted(p.matrix.value(), DType::kBFloat16).ToHost());
}

TEST(AdamW, ContinuesFromMomentsAndCount) {
  auto copy = [](const Tensor& from, Tensor& to) {
    const std::vector<float> values = from.ToHost();
    std::ranges::copy(values, to.mutable_data<float>());
  };
  Parameters straight, stopped, resumed;
  AdamW a(straight.set, {}), b(stopped.set, {}), c(resumed.set, {});
  for (uint32_t update = 1; update <= 4; ++update) {
    straight.FakeBackward(update, 1);
    a.Step(0.01f);
    if (update > 2) continue;
    stopped.FakeBackward(update, 1);
    b.Step(0.01f);
  }
  for (size_t i = 0; i < stopped.set.buckets().size(); ++i) {
    copy(stopped.set.buckets()[i].values, resumed.set.buckets()[i].values);
    copy(b.moments().first[i], c.moments().first[i]);
    copy(b.moments().second[i], c.moments().second[i]);
  }
  c.set_updates(b.updates());
  for (uint32_t update = 3; update <= 4; ++update) {
    resumed.FakeBackward(update, 1);
    c.Step(0.01f);
  }
  EXPECT_EQ(resumed.All(), straight.All());
}

}  // namespace
}  // namespace tost::train
