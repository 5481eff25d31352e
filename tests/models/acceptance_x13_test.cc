// Acceptance statement X13, its part for one process: one picture is evaluated on the CPU.
#include <cmath>
#include <vector>

#include "autograd/gradcheck.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/variants.h"
#include "ops/layout.h"

namespace tost::models {
namespace {

// Batch norm evaluates with its running statistics, so a picture alone has the logits that it has
// among others, though statistics of its own could not even be formed for a single value.
TEST(X13, OnePictureHasTheLogitsThatItHasInABatch) {
  for (const char* name : {"tost_small_pictures_p8", "xcit_small_pictures_p8",
                           "vit_small_pictures_p8", "crate_small_pictures_p8"}) {
    SCOPED_TRACE(name);
    ParameterSet params(Device::Cpu(), 5);
    const ImageClassifier model(params.Root(), *ImageVariant(name));
    params.Finalize();
    const Tensor images = Converted(RandomTensor({8, 32, 32, 3}, 1), DType::kFloat32);
    Pass training{.training = true}, evaluation;
    model.Logits(images, training);  // moves the running statistics
    const std::vector<float> all = model.Logits(images, evaluation).ToHost();
    const Tensor alone = model.Logits(ops::Slice(images, 0, 3, 4), evaluation);
    ASSERT_EQ(alone.shape(), (Shape{1, 10}));
    EXPECT_THAT(alone.ToHost(),
                testing::Pointwise(testing::FloatNear(1e-6f),
                                   std::vector<float>(all.begin() + 30, all.begin() + 40)));
  }
}

// A stem that ends in one pixel: 16 x 16 pictures with patches of 16 have one token.
TEST(X13, OnePictureOfOneTokenIsFinite) {
  ParameterSet params(Device::Cpu(), 5);
  const ImageClassifier model(
      params.Root(),
      VisionConfig{.image_size = 16, .patch = 16, .width = 32, .depth = 2, .heads = 4});
  params.Finalize();
  Pass evaluation;
  const Tensor image = Converted(RandomTensor({1, 16, 16, 3}, 1), DType::kFloat32);
  for (const float logit : model.Logits(image, evaluation).ToHost()) {
    EXPECT_TRUE(std::isfinite(logit));
  }
}

}  // namespace
}  // namespace tost::models
