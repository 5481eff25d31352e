// Vision models: published sizes, pictures of any size, settings that do not fit.
#include "models/vision_model.h"

#include <map>
#include <string>

#include "autograd/gradcheck.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/variants.h"

namespace tost::models {
namespace {

using testing::HasSubstr;

int64_t ParametersOf(const VisionConfig& config) {
  ParameterSet params(Device::Cpu(), 0);
  const VisionModel model(params.Root(), config);
  return params.element_count();
}

// Counted by instantiating the official models.
TEST(VisionVariants, HaveThePublishedSizes) {
  const std::map<std::string, int64_t> sizes = {
      {"tost_cab_tiny_12_p16", 5769328},    {"tost_cab_tiny_12_p8", 5759560},
      {"tost_cab_tiny_24_p16", 10223008},   {"tost_cab_tiny_24_p8", 10213240},
      {"tost_cab_small_12_p16", 22589944},  {"tost_cab_small_12_p8", 22549672},
      {"tost_cab_small_24_p16", 40344664},  {"tost_cab_small_24_p8", 40304392},
      {"tost_cab_medium_24_p16", 71481064}, {"tost_cab_medium_24_p8", 71408936},
      {"tost_cab_large_24_p16", 160286920}, {"tost_cab_large_24_p8", 160123432},
      {"xcit_cab_tiny_12_p16", 6658672},    {"xcit_cab_tiny_24_p16", 12001696},
      {"xcit_cab_small_12_p16", 26138104},  {"xcit_cab_small_24_p16", 47440984},
      {"xcit_cab_medium_24_p16", 84088552}, {"xcit_cab_large_24_p16", 188635336},
      {"vit_cab_tiny_12_p16", 6658624},     {"vit_cab_tiny_24_p16", 12001600},
      {"vit_cab_small_12_p16", 26138008},   {"vit_cab_small_24_p16", 47440792},
      {"vit_cab_medium_24_p16", 84088360},  {"vit_cab_large_24_p16", 188634952}};
  for (const auto& [name, parameters] : sizes) {
    const absl::StatusOr<VisionConfig> config = VisionVariant(name);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(ParametersOf(*config), parameters) << name;
  }
  EXPECT_THAT(
      std::string(VisionVariant("tost_cab_medium_12_p16").status().message()),
      HasSubstr("unknown model tost_cab_medium_12_p16; known models: tost_cab_tiny_12_p16"));
}

TEST(VisionModel, NamesAreTheOfficialOnes) {
  ParameterSet params(Device::Cpu(), 0);
  const VisionModel model(params.Root(), *VisionVariant("tost_cab_small_12_p16"));
  EXPECT_EQ(params.parameters().size() + params.states().size(), 239u - 4u)
      << "all entries but the four num_batches_tracked";
  for (const char* name :
       {"cls_token", "patch_embed.proj.6.1.bias", "blocks.11.attn.temp", "blocks.0.attn.qkv.weight",
        "blocks.3.attn.to_out.0.bias", "blocks.5.mlp.fc2.weight",
        "cls_attn_blocks.1.attn.proj.bias", "cls_attn_blocks.0.gamma2", "norm.weight", "head.bias",
        "pos_embeder.token_projection.weight"}) {
    EXPECT_NE(params.Find(name), nullptr) << name;
  }
}

// Positions are functions of the place, so a picture of another size, or not square, is fine.
TEST(VisionModel, TakesPicturesOfAnySize) {
  ParameterSet params(Device::Cpu(), 0);
  const VisionModel model(params.Root(), *VisionVariant("tost_small_pictures_p8"));
  params.Finalize();
  Pass pass;
  for (const Shape& shape : {Shape{2, 32, 32, 3}, Shape{1, 48, 24, 3}, Shape{1, 33, 31, 3}}) {
    const Tensor images = Converted(RandomTensor(shape, 1), DType::kFloat32);
    EXPECT_EQ(model.Logits(images, pass).shape(), (Shape{shape[0], 10}));
  }
}

TEST(VisionModel, DropPathLeavesBranchesOutInTrainingOnly) {
  ParameterSet params(Device::Cpu(), 0);
  const VisionModel model(params.Root(), *VisionVariant("tost_small_pictures_p8"));
  params.Finalize();
  const Tensor images = Converted(RandomTensor({2, 32, 32, 3}, 1), DType::kFloat32);
  const auto logits = [&](bool training, float rate) {
    Pass pass{.training = training, .drop_path = rate, .random = RandomStream(1, 2)};
    return model.Logits(images, pass).ToHost();
  };
  EXPECT_EQ(logits(true, 0), logits(true, 0));
  EXPECT_NE(logits(true, 0), logits(true, 0.5f));
  EXPECT_EQ(logits(false, 0), logits(false, 0.5f));
}

TEST(VisionConfig, SettingsThatDoNotFitAreNamed) {
  const auto message = [](VisionConfig config) { return std::string(config.Validate().message()); };
  EXPECT_THAT(message({.patch = 32}), HasSubstr("patch must be 4, 8 or 16, got 32"));
  EXPECT_THAT(message({.heads = 5}), HasSubstr("width 192 is not a multiple of heads 5"));
  EXPECT_THAT(message({.width = 36, .heads = 3}), HasSubstr("width 36 is not a multiple of 8"));
  EXPECT_THAT(message({.classes = 0}), HasSubstr("classes must be at least 1"));
}

}  // namespace
}  // namespace tost::models
