// Whole classifiers with bfloat16 activations: near float32, and trainable.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "autograd/gradcheck.h"
#include "autograd/tape.h"
#include "gtest/gtest.h"
#include "models/variants.h"
#include "ops/loss.h"
#include "trainers/optimizer.h"

namespace tost::models {
namespace {

class BFloat16 : public testing::TestWithParam<const char*> {};

Tensor Images(int64_t count) {
  return Converted(RandomTensor({count, 32, 32, 3}, 1), DType::kFloat32);
}

std::vector<float> LogitsAs(const char* model_name, DType dtype, bool training) {
  ParameterSet params(Device::Cpu(), 5);
  const ImageClassifier model(params.Root(), *ImageVariant(model_name));
  params.Finalize(dtype);
  Pass pass{.training = training, .compute_dtype = dtype};
  const Tensor logits = model.Logits(Images(4), pass);
  EXPECT_EQ(logits.dtype(), dtype);
  return Converted(logits, DType::kFloat32).ToHost();
}

// bfloat16 has 8 bits, and some tens of roundings add up at random: 2⁻⁸ · √50 of the largest
// logit.
TEST_P(BFloat16, LogitsAreNearThoseOfFloat32) {
  for (const bool training : {false, true}) {
    const std::vector<float> exact = LogitsAs(GetParam(), DType::kFloat32, training);
    const std::vector<float> rounded = LogitsAs(GetParam(), DType::kBFloat16, training);
    float largest = 0;
    for (const float value : exact) largest = std::max(largest, std::abs(value));
    for (size_t i = 0; i < exact.size(); ++i) {
      EXPECT_NEAR(rounded[i], exact[i], 0.03f * largest) << i;
    }
    EXPECT_NE(rounded, exact) << "were the activations bfloat16 at all?";
  }
}

TEST_P(BFloat16, AFewUpdatesLowerTheLoss) {
  ParameterSet params(Device::Cpu(), 5);
  const ImageClassifier model(params.Root(), *ImageVariant(GetParam()));
  params.Finalize(DType::kBFloat16);
  train::AdamW optimizer(params, {.clip_norm = 1});
  const Tensor images = Images(8);
  const Tensor labels =
      Tensor::FromHost<int32_t>({8}, std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7});
  std::vector<double> losses;
  for (int step = 0; step < 8; ++step) {
    Pass pass{.training = true, .compute_dtype = DType::kBFloat16};
    params.StartStep();
    Tape tape;
    const Tensor loss = ops::CrossEntropy(model.Logits(images, pass), labels);
    EXPECT_EQ(loss.dtype(), DType::kFloat32);
    losses.push_back(loss.Item());
    tape.Backward(loss);
    optimizer.Step(1e-3f);
    EXPECT_FALSE(optimizer.Result().skipped);
  }
  EXPECT_LT(losses.back(), 0.8 * losses.front());
  for (const Parameter& parameter : params.parameters()) {
    EXPECT_EQ(parameter.grad().value().dtype(), DType::kFloat32) << parameter.name();
  }
  for (const State& state : params.states()) {
    EXPECT_EQ(state.value().dtype(), DType::kFloat32) << state.name();
  }
}

INSTANTIATE_TEST_SUITE_P(, BFloat16,
                         testing::Values("tost_small_pictures_p8",
                                         "tost_small_pictures_p8_ista_unnormalized",
                                         "xcit_small_pictures_p8", "vit_small_pictures_p8",
                                         "crate_small_pictures_p8"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace tost::models
