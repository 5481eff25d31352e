// Optimizers step by step against torch.optim in double. The files describe themselves in words,
// from which the hyper-parameters are read.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "ops/optimizer_kernels.h"
#include "tests/golden/golden.h"
#include "trainers/optimizer.h"

namespace tost {
namespace {

using golden::GoldenFile;
using golden::GoldenFiles;
using golden::Overwrite;

// Relative to values near 1: double rounding of a few steps, and float rounding of as many.
constexpr double kDoubleBound = 1e-10;
constexpr double kFloatBound = 4e-6;

// What torch.optim takes where the description is silent: betas (0.9, 0.999), ε 1e-8, no clipping.
struct Recipe {
  double rate, beta1, beta2, epsilon, decay, clip, momentum;

  explicit Recipe(const GoldenFile& file)
      : rate(file.Described("lr ", NAN)),
        beta1(file.Described("betas \\(", 0.9)),
        beta2(file.Described("betas \\([0-9.]+,", 0.999)),
        epsilon(file.Described("eps ", 1e-8)),
        decay(file.Described("(?:decayed with |weight decay )", 0)),
        clip(file.Described("clip ", 0)),
        momentum(file.Described("momentum ", 0)) {
    EXPECT_GT(rate, 0) << file.Text("description");
  }
};

int Steps(const GoldenFile& file) {
  int steps = 0;
  while (file.Has(absl::StrCat("g0.", steps))) ++steps;
  EXPECT_GT(steps, 0);
  return steps;
}

void ExpectClose(const std::vector<double>& actual, const std::vector<double>& truth,
                 double bound) {
  ASSERT_EQ(actual.size(), truth.size());
  double largest = 0;
  for (double value : truth) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < truth.size(); ++i) ASSERT_NEAR(actual[i], truth[i], bound * largest) << i;
}

// p0 and p1 as the kernels see them; only p0 decays.
void CheckAdamWKernel(const GoldenFile& file, DType dtype, double bound) {
  SCOPED_TRACE(file.name());
  const Recipe recipe(file);
  Tensor value[2], first[2], second[2], none;
  for (int p = 0; p < 2; ++p) {
    value[p] = file.Load(absl::StrCat("p", p, ".init"), dtype);
    first[p] = Tensor::Zeros(value[p].shape(), dtype, golden::TestDevice());
    second[p] = Tensor::Zeros(value[p].shape(), dtype, golden::TestDevice());
  }
  Tensor squares = Tensor::Zeros({}, DType::kFloat64, golden::TestDevice());
  Tensor update = ops::NewUpdateScalars(golden::TestDevice());
  for (int step = 0; step < Steps(file); ++step) {
    const std::string suffix = absl::StrCat(".", step);
    const Tensor gradient[2] = {file.Load("g0" + suffix, dtype), file.Load("g1" + suffix, dtype)};
    for (int p = 0; p < 2; ++p) ops::SquaredNorm(gradient[p], /*add=*/p > 0, squares);
    ops::BeginUpdate({.clip_norm = recipe.clip, .beta1 = recipe.beta1, .beta2 = recipe.beta2},
                     squares, update);
    if (file.Has("grad_norm_before_clip")) {
      const double truth = file.Doubles("grad_norm_before_clip").at(static_cast<size_t>(step));
      EXPECT_NEAR(ops::ReadUpdateScalars(update).gradient_norm, truth, bound * truth);
    }
    for (int p = 0; p < 2; ++p) {
      ops::AdamW({.learning_rate = recipe.rate,
                  .beta1 = recipe.beta1,
                  .beta2 = recipe.beta2,
                  .epsilon = recipe.epsilon,
                  .weight_decay = p == 0 ? recipe.decay : 0},
                 update, gradient[p], value[p], first[p], second[p], none);
      ExpectClose(value[p].ToHost<double>(), file.Doubles(absl::StrCat("p", p, suffix)), bound);
    }
  }
}

TEST(OptimizerGolden, AdamWKernelInFloat64) {
  for (const GoldenFile& file : GoldenFiles("opt_adam")) {
    CheckAdamWKernel(file, DType::kFloat64, kDoubleBound);
  }
}

TEST(OptimizerGolden, AdamWKernelInFloat32) {
  for (const GoldenFile& file : GoldenFiles("opt_adam")) {
    CheckAdamWKernel(file, DType::kFloat32, kFloatBound);
  }
}

// The class over buckets: clipping by the global norm, decay by group.
TEST(OptimizerGolden, AdamWOverBuckets) {
  for (const GoldenFile& file : GoldenFiles("opt_adam")) {
    SCOPED_TRACE(file.name());
    const Recipe recipe(file);
    ParameterSet params(golden::TestDevice(), 1);
    Parameter* p[2] = {
        &params.Root().Add("p0", file.ShapeOf("p0.init"), Init::Zeros(), Decay::kYes),
        &params.Root().Add("p1", file.ShapeOf("p1.init"), Init::Zeros(), Decay::kNo)};
    params.Finalize();
    for (int i = 0; i < 2; ++i) {
      Overwrite(p[i]->value(), file.Values<float>(absl::StrCat("p", i, ".init")));
    }
    train::AdamW adamw(params, {.beta1 = recipe.beta1,
                                .beta2 = recipe.beta2,
                                .epsilon = recipe.epsilon,
                                .weight_decay = recipe.decay,
                                .clip_norm = recipe.clip});
    for (int step = 0; step < Steps(file); ++step) {
      const std::string suffix = absl::StrCat(".", step);
      params.StartStep();
      for (int i = 0; i < 2; ++i) {
        p[i]->grad().Write(p[i]->shape(), [&](Tensor& out, bool) {
          Overwrite(out, file.Values<float>(absl::StrCat("g", i, suffix)));
        });
      }
      adamw.Step(static_cast<float>(recipe.rate));
      EXPECT_FALSE(adamw.Result().skipped);
      for (int i = 0; i < 2; ++i) {
        ExpectClose(p[i]->value().ToHost<double>(), file.Doubles(absl::StrCat("p", i, suffix)),
                    kFloatBound);
      }
    }
  }
}

TEST(OptimizerGolden, Sgd) {
  for (const GoldenFile& file : GoldenFiles("opt_sgd")) {
    SCOPED_TRACE(file.name());
    const Recipe recipe(file);
    for (const auto& [dtype, bound] :
         {std::pair{DType::kFloat64, kDoubleBound}, std::pair{DType::kFloat32, kFloatBound}}) {
      for (int p : {0, 1}) {
        Tensor value = file.Load(absl::StrCat("p", p, ".init"), dtype);
        Tensor momentum = Tensor::Empty(value.shape(), dtype, golden::TestDevice());
        Tensor none;
        for (int step = 0; step < Steps(file); ++step) {
          const std::string suffix = absl::StrCat(".", step);
          const Tensor update = ops::NewUpdateScalars(golden::TestDevice(), step + 1);
          ops::Sgd({.learning_rate = recipe.rate, .momentum = recipe.momentum}, update,
                   file.Load(absl::StrCat("g", p, suffix), dtype), value, momentum, none);
          ExpectClose(value.ToHost<double>(), file.Doubles(absl::StrCat("p", p, suffix)), bound);
        }
      }
    }
  }
}

TEST(OptimizerGolden, ExponentialMovingAverage) {
  for (const GoldenFile& file : GoldenFiles("ema")) {
    SCOPED_TRACE(file.name());
    const double decay = file.Described("decay ", NAN);
    ASSERT_GT(decay, 0);
    for (const auto& [dtype, bound] :
         {std::pair{DType::kFloat64, kDoubleBound}, std::pair{DType::kFloat32, kFloatBound}}) {
      Tensor average = file.Load("init", dtype);
      for (int step = 0; file.Has(absl::StrCat("model.", step)); ++step) {
        const std::string suffix = absl::StrCat(".", step);
        ops::ExponentialMovingAverage(decay, {}, file.Load(absl::StrCat("model", suffix), dtype),
                                      average);
        ExpectClose(average.ToHost<double>(), file.Doubles(absl::StrCat("ema", suffix)), bound);
      }
    }
  }
}

}  // namespace
}  // namespace tost
