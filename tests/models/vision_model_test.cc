// Image classifiers: published sizes, names, pictures of any size, settings that do not fit.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "autograd/gradcheck.h"
#include "autograd/tape.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/image_classifier.h"
#include "models/variants.h"
#include "ops/elementwise.h"
#include "ops/ista.h"
#include "ops/layer_norm.h"
#include "ops/linear.h"
#include "ops/tssa.h"

namespace tost::models {
namespace {

using testing::HasSubstr;

int64_t ParametersOf(const ImageClassifierConfig& config) {
  ParameterSet params(Device::Cpu(), 0);
  const ImageClassifier model(params.Root(), config);
  return params.element_count();
}

// Counted by instantiating the official models.
TEST(VisionVariants, HaveThePublishedSizes) {
  const std::map<std::string, int64_t> sizes = {
      {"tost_cab_tiny_12_p16", 5769328},
      {"tost_cab_tiny_12_p8", 5759560},
      {"tost_cab_tiny_24_p16", 10223008},
      {"tost_cab_tiny_24_p8", 10213240},
      {"tost_cab_small_12_p16", 22589944},
      {"tost_cab_small_12_p8", 22549672},
      {"tost_cab_small_24_p16", 40344664},
      {"tost_cab_small_24_p8", 40304392},
      {"tost_cab_medium_24_p16", 71481064},
      {"tost_cab_medium_24_p8", 71408936},
      {"tost_cab_large_24_p16", 160286920},
      {"tost_cab_large_24_p8", 160123432},
      {"xcit_cab_tiny_12_p16", 6658672},
      {"xcit_cab_tiny_24_p16", 12001696},
      {"xcit_cab_small_12_p16", 26138104},
      {"xcit_cab_small_24_p16", 47440984},
      {"xcit_cab_medium_24_p16", 84088552},
      {"xcit_cab_large_24_p16", 188635336},
      {"vit_cab_tiny_12_p16", 6658624},
      {"vit_cab_tiny_24_p16", 12001600},
      {"vit_cab_small_12_p16", 26138008},
      {"vit_cab_small_24_p16", 47440792},
      {"vit_cab_medium_24_p16", 84088360},
      {"vit_cab_large_24_p16", 188634952},
      // By formula; they round to the published 6.09, 13.12, 22.80 and 77.64 million.
      {"crate_tiny", 6090856},
      {"crate_small", 13116328},
      {"crate_base", 22796008},
      {"crate_large", 77641192}};
  for (const auto& [name, parameters] : sizes) {
    const absl::StatusOr<ImageClassifierConfig> config = ImageVariant(name);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(ParametersOf(*config), parameters) << name;
  }
  EXPECT_THAT(
      std::string(ImageVariant("tost_cab_medium_12_p16").status().message()),
      HasSubstr("unknown model tost_cab_medium_12_p16; known models: tost_cab_tiny_12_p16"));
}

TEST(VisionModel, NamesAreTheOfficialOnes) {
  ParameterSet params(Device::Cpu(), 0);
  const ImageClassifier model(params.Root(), *ImageVariant("tost_cab_small_12_p16"));
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

TEST(Crate, NamesAreTheOfficialOnes) {
  ParameterSet params(Device::Cpu(), 0);
  const ImageClassifier model(params.Root(), *ImageVariant("crate_tiny"));
  EXPECT_EQ(params.parameters().size(), 8u + 8u * 12 + 4u);
  for (const char* name :
       {"to_patch_embedding.1.weight", "to_patch_embedding.2.bias", "to_patch_embedding.3.bias",
        "pos_embedding", "cls_token", "transformer.layers.11.0.norm.bias",
        "transformer.layers.0.0.fn.qkv.weight", "transformer.layers.0.0.fn.to_out.0.bias",
        "transformer.layers.5.1.norm.weight", "transformer.layers.5.1.fn.weight",
        "mlp_head.0.weight", "mlp_head.1.bias"}) {
    EXPECT_NE(params.Find(name), nullptr) << name;
  }
  EXPECT_EQ(params.Find("transformer.layers.0.0.fn.qkv.bias"), nullptr);
}

TEST(Crate, LogitsDependOnEveryPixelAndTheHeadReadsTheFeatures) {
  ParameterSet params(Device::Cpu(), 0);
  const CrateConfig config{
      .image_size = 6, .patch = 2, .width = 8, .depth = 2, .heads = 2, .classes = 3};
  const ImageClassifier model(params.Root(), config);
  params.Finalize();
  Pass pass{.training = true};
  const Tensor images = Leaf(Converted(RandomTensor({2, 6, 6, 3}, 1), DType::kFloat32));
  Tape tape;
  const Tensor features = model.Features(images, pass);
  EXPECT_EQ(features.shape(), (Shape{2, 8}));
  const Tensor logits = model.Head(features);
  EXPECT_EQ(logits.ToHost(), model.Logits(images, pass).ToHost());
  tape.BackwardFrom(logits, Converted(RandomTensor({2, 3}, 2), DType::kFloat32));
  for (const float slope : images.grad()->value().ToHost()) EXPECT_NE(slope, 0);
  for (const Parameter& parameter : params.parameters()) {
    const std::vector<float> gradient = parameter.grad().value().ToHost();
    EXPECT_TRUE(std::ranges::any_of(gradient, [](float g) { return g != 0; })) << parameter.name();
  }
}

// With ISTA a block is norms, γ1, TSSA and one dictionary; the class-attention blocks keep their
// MLPs.
TEST(Ablation, ReplacesTheMlpOrTheMemberships) {
  const auto config = [](const char* suffix) {
    return std::get<VisionConfig>(*ImageVariant(absl::StrCat("tost_cab_small_12_p16", suffix)));
  };
  const int64_t width = 384, mlp = 8 * width * width + 5 * width + width;  // with γ2
  EXPECT_EQ(ParametersOf(config("_ista")), ParametersOf(config("")) - 12 * (mlp - width * width));
  EXPECT_EQ(ParametersOf(config("_unnormalized")), ParametersOf(config("")));
  EXPECT_TRUE(config("_ista").normalized_memberships);
  EXPECT_FALSE(config("_ista_unnormalized").normalized_memberships);
  ParameterSet params(Device::Cpu(), 0);
  const ImageClassifier model(params.Root(), config("_ista"));
  EXPECT_NE(params.Find("blocks.3.mlp.weight"), nullptr);
  EXPECT_EQ(params.Find("blocks.3.gamma2"), nullptr);
  EXPECT_NE(params.Find("cls_attn_blocks.0.mlp.fc1.weight"), nullptr);
}

// A block is x + γ1 ⊙ tssa(norm1(x)), and ISTA of its normalisation is all that leaves it.
TEST(Ablation, IstaStandsWithoutResidual) {
  ParameterSet params(Device::Cpu(), 0);
  const VisionBlock block(params.Root(), {.feed_forward = FeedForward::kIsta,
                                          .normalized_memberships = false,
                                          .width = 24,
                                          .heads = 3});
  params.Finalize();
  const auto of = [&](const char* name) { return params.Find(name)->value(); };
  const Tensor x = Converted(RandomTensor({2, 5, 24}, 1), DType::kFloat32);
  Pass pass;
  const std::vector<float> y = block(x, pass, 0).ToHost();
  const Tensor u = ops::LayerNorm(x, of("norm1.weight"), of("norm1.bias"), 1e-6f);
  const Tensor w = ops::Linear(u, of("attn.qkv.weight"), of("attn.qkv.bias"));
  const Tensor mixed = ops::Linear(ops::Tssa(w, of("attn.temp"), {}, {.normalized = false}),
                                   of("attn.to_out.0.weight"), of("attn.to_out.0.bias"));
  const std::vector<float> expected =
      ops::Ista(
          ops::LayerNorm(x + mixed * of("gamma1"), of("norm2.weight"), of("norm2.bias"), 1e-6f),
          of("mlp.weight"))
          .ToHost();
  EXPECT_THAT(y, testing::Pointwise(testing::FloatNear(1e-5f), expected));
  EXPECT_TRUE(std::ranges::any_of(y, [](float value) { return value > 0; }));
}

TEST(ImageClassifier, LayersAreNumberedFromStemToHead) {
  const auto layer = [](const char* model, const char* parameter) {
    return LayerOf(*ImageVariant(model), parameter);
  };
  EXPECT_EQ(DepthOf(*ImageVariant("tost_cab_small_12_p16")), 14);
  for (const char* name :
       {"cls_token", "patch_embed.proj.0.0.weight", "pos_embeder.token_projection.bias"}) {
    EXPECT_EQ(layer("tost_cab_small_12_p16", name), 0) << name;
  }
  EXPECT_EQ(layer("tost_cab_small_12_p16", "blocks.0.attn.temp"), 1);
  EXPECT_EQ(layer("tost_cab_small_12_p16", "blocks.11.norm1.weight"), 12);
  EXPECT_EQ(layer("tost_cab_small_12_p16", "cls_attn_blocks.1.gamma1"), 14);
  for (const char* name : {"norm.bias", "head.weight"}) {
    EXPECT_EQ(layer("tost_cab_small_12_p16", name), 15) << name;
  }
  for (const char* name : {"cls_token", "pos_embedding", "to_patch_embedding.2.weight"}) {
    EXPECT_EQ(layer("crate_tiny", name), 0) << name;
  }
  EXPECT_EQ(layer("crate_tiny", "transformer.layers.11.1.fn.weight"), 12);
  for (const char* name : {"mlp_head.0.bias", "mlp_head.1.weight"}) {
    EXPECT_EQ(layer("crate_tiny", name), 13) << name;
  }
}

TEST(ImageClassifier, TheHeadIsTheLastLinearLayer) {
  for (const char* name : {"head.weight", "head.bias", "mlp_head.1.weight", "mlp_head.1.bias"}) {
    EXPECT_TRUE(IsHead(name)) << name;
  }
  for (const char* name : {"norm.weight", "mlp_head.0.weight", "blocks.0.attn.temp"}) {
    EXPECT_FALSE(IsHead(name)) << name;
  }
}

TEST(ImageClassifier, ClassesAndPictureSizeCanBeChanged) {
  for (const char* name : {"tost_cab_tiny_12_p16", "crate_tiny"}) {
    const ImageClassifierConfig config = *ImageVariant(name);
    EXPECT_EQ(classes(config), 1000);
    EXPECT_EQ(image_size(config), 224);
    EXPECT_EQ(classes(WithClasses(config, 10)), 10);
    EXPECT_EQ(image_size(WithImageSize(config, 32)), 32);
  }
}

// Positions are functions of the place, so a picture of another size, or not square, is fine.
TEST(VisionModel, TakesPicturesOfAnySize) {
  ParameterSet params(Device::Cpu(), 0);
  const ImageClassifier model(params.Root(), *ImageVariant("tost_small_pictures_p8"));
  params.Finalize();
  Pass pass;
  for (const Shape& shape : {Shape{2, 32, 32, 3}, Shape{1, 48, 24, 3}, Shape{1, 33, 31, 3}}) {
    const Tensor images = Converted(RandomTensor(shape, 1), DType::kFloat32);
    EXPECT_EQ(model.Logits(images, pass).shape(), (Shape{shape[0], 10}));
  }
}

TEST(VisionModel, DropPathLeavesBranchesOutInTrainingOnly) {
  ParameterSet params(Device::Cpu(), 0);
  const ImageClassifier model(params.Root(), *ImageVariant("tost_small_pictures_p8"));
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

TEST(CrateConfig, SettingsThatDoNotFitAreNamed) {
  const auto message = [](CrateConfig config) { return std::string(config.Validate().message()); };
  EXPECT_THAT(message({.image_size = 100}),
              HasSubstr("image_size 100 is not a multiple of patch 16"));
  EXPECT_THAT(message({.heads = 5}), HasSubstr("width 384 is not a multiple of heads 5"));
  EXPECT_THAT(message({.step = -1}), HasSubstr("step must be 0 or more, got -1"));
}

}  // namespace
}  // namespace tost::models
