// Image classifiers in run folders: what is saved comes back, and other kinds of runs are refused.
#include "trainers/vision_run.h"

#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/variants.h"
#include "tests/data/test_files.h"
#include "trainers/language_run.h"

namespace tost::train {
namespace {

using models::ImageClassifierConfig;
using testing::HasSubstr;

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

std::string ParseError(const std::string& json) {
  return MessageOf(ImageClassifierConfigFromJson(json, "x").status());
}

TEST(ImageClassifierJson, EveryVariantComesBack) {
  for (const std::string& name : models::ImageVariantNames()) {
    const ImageClassifierConfig config = *models::ImageVariant(name);
    const auto read = ImageClassifierConfigFromJson(ToJson(config), "x");
    ASSERT_TRUE(read.ok()) << name << ": " << read.status();
    EXPECT_EQ(*read, config) << name;
  }
}

TEST(ImageClassifierJson, EveryFieldCounts) {
  const models::CrateConfig crate{.image_size = 48,
                                  .patch = 3,
                                  .width = 20,
                                  .depth = 2,
                                  .heads = 5,
                                  .classes = 7,
                                  .step = 0.25,
                                  .sparsity = 0.5};
  EXPECT_EQ(*ImageClassifierConfigFromJson(ToJson(crate), "x"), ImageClassifierConfig(crate));
  const models::VisionConfig vision{.mixer = models::VisionMixer::kCrossCovariance,
                                    .feed_forward = models::FeedForward::kIsta,
                                    .normalized_memberships = false,
                                    .image_size = 48,
                                    .patch = 4,
                                    .width = 20,
                                    .depth = 3,
                                    .heads = 5,
                                    .class_blocks = 1,
                                    .layer_scale = 0.3f,
                                    .normalize_all_tokens = false,
                                    .classes = 7};
  EXPECT_EQ(*ImageClassifierConfigFromJson(ToJson(vision), "x"), ImageClassifierConfig(vision));
}

TEST(ImageClassifierJson, WhatDoesNotFitIsNamed) {
  const std::string good = ToJson(*models::ImageVariant("crate_tiny"));
  const auto changed = [&](const char* from, const char* to) {
    const std::string json = absl::StrReplaceAll(good, {{from, to}});
    EXPECT_NE(json, good) << from;
    return ParseError(json);
  };
  EXPECT_EQ(ParseError("[]"), "x: holds no description of an image classifier");
  EXPECT_EQ(ParseError("{}"), "x: unknown architecture (none)");
  EXPECT_EQ(changed("\"crate\"", "\"swin\""), "x: unknown architecture \"swin\"");
  EXPECT_EQ(changed("\"crate\"", "3"), "x: unknown architecture 3");
  EXPECT_EQ(changed("\"width\"", "\"with\""), "x: the model description has no width");
  EXPECT_EQ(changed("\"width\":384", "\"width\":1e9"),
            "x: the model description has width = 1000000000.0, which is not a value of it");
  EXPECT_EQ(changed("\"width\":384", "\"width\":9000000000"),
            "x: the model description has width = 9000000000, which is not a value of it");
  EXPECT_EQ(changed("\"step\":0.1", "\"step\":null"),
            "x: the model description has step = null, which is not a value of it");
  EXPECT_EQ(changed("\"heads\":6", "\"heads\":5"), "x: width 384 is not a multiple of heads 5");
}

class VisionRunFiles : public testing::Test {
 protected:
  // A checkpoint of a small model with the given extra values.
  std::string Save(std::map<std::string, std::string> extra) {
    ParameterSet params(Device::Cpu(), 3);
    const models::ImageClassifier model(params.Root(), kConfig);
    params.Finalize();
    Tensor mean = params.states()[0].value();
    mean.mutable_data<float>()[0] = 0.5f;
    const std::string path = files_.File("checkpoint.safetensors");
    TOST_CHECK_OK(SaveCheckpoint(path, params, nullptr, {.seed = 3, .extra = std::move(extra)}));
    return path;
  }

  const models::VisionConfig kConfig{.image_size = 16,
                                     .patch = 4,
                                     .width = 8,
                                     .depth = 1,
                                     .heads = 2,
                                     .class_blocks = 1,
                                     .classes = 2};
  TemporaryFolder files_;
};

TEST_F(VisionRunFiles, WeightsStatesAndClassNamesComeBack) {
  const std::string path = Save(
      {{kModelKey, ToJson(kConfig)}, {kClassesKey, ClassNamesToJson({"cat \"\u00e9\"", "dog"})}});
  const auto run = LoadVisionRun(path, DType::kFloat32);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->config, ImageClassifierConfig(kConfig));
  EXPECT_THAT(run->class_names, testing::ElementsAre("cat \"\u00e9\"", "dog"));
  EXPECT_EQ(run->params->states()[0].value().ToHost()[0], 0.5f);
  ParameterSet fresh(Device::Cpu(), 3);
  const models::ImageClassifier model(fresh.Root(), kConfig);
  fresh.Finalize();
  for (const Parameter& parameter : fresh.parameters()) {
    EXPECT_EQ(run->params->Find(parameter.name())->value().ToHost(), parameter.value().ToHost());
  }
}

TEST_F(VisionRunFiles, ClassNamesMayBeUnknownButNotTooFew) {
  EXPECT_TRUE(
      LoadVisionRun(Save({{kModelKey, ToJson(kConfig)}}), DType::kFloat32)->class_names.empty());
  const std::string path =
      Save({{kModelKey, ToJson(kConfig)}, {kClassesKey, ClassNamesToJson({"cat"})}});
  EXPECT_EQ(
      MessageOf(ReadVisionRunHeader(path).status()),
      absl::StrCat(path, ": its value \"classes\" is no JSON list of the names of 2 classes"));
}

TEST_F(VisionRunFiles, RunsOfTheOtherKindAreRefusedInOneLine) {
  const std::string vision = Save({{kModelKey, ToJson(kConfig)}});
  EXPECT_EQ(MessageOf(LoadLanguageRun(vision, DType::kFloat32).status()),
            absl::StrCat(vision, " is an image classifier, where a language model is needed"));
  const std::string language = Save({{kModelKey, ToJson(*models::LanguageVariant("tost_mini"))}});
  EXPECT_EQ(MessageOf(LoadVisionRun(language, DType::kFloat32).status()),
            absl::StrCat(language, " is a language model, where an image classifier is needed"));
}

TEST_F(VisionRunFiles, AnAbsentRunIsSaidToBeAbsent) {
  const std::string path = files_.File("nothing");
  EXPECT_EQ(MessageOf(ReadVisionRunHeader(path).status()),
            absl::StrCat(path, ": no such run folder or checkpoint file"));
}

}  // namespace
}  // namespace tost::train
