#include "trainers/vision_layout.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/variants.h"
#include "tests/data/test_files.h"

namespace tost::train {
namespace {

using models::CrateConfig;
using models::ImageClassifierConfig;
using models::VisionConfig;
using models::VisionMixer;

VisionConfig Tiny(VisionMixer mixer) {
  return {.mixer = mixer, .patch = 8, .width = 16, .depth = 3, .heads = 2, .classes = 5};
}

const CrateConfig kTinyCrate{
    .image_size = 20, .patch = 5, .width = 16, .depth = 3, .heads = 2, .classes = 7};

// The entries of a file that holds a model's parameters and states.
std::vector<TensorEntry> EntriesOf(const ImageClassifierConfig& config,
                                   const std::string& prefix = "") {
  ParameterSet params(Device::Cpu(), 0);
  const models::ImageClassifier model(params.Root(), config);
  std::vector<TensorEntry> entries;
  const auto add = [&](const std::string& name, const Shape& shape) {
    const auto extents = shape.extents();
    entries.push_back(
        {.name = prefix + name, .dtype = "F32", .shape = {extents.begin(), extents.end()}});
  };
  for (const Parameter& parameter : params.parameters()) add(parameter.name(), parameter.shape());
  for (const State& state : params.states()) add(state.name(), state.shape());
  return entries;
}

TensorEntry& Find(std::vector<TensorEntry>& entries, const std::string& end) {
  for (TensorEntry& entry : entries) {
    if (absl::EndsWith(entry.name, end)) return entry;
  }
  ADD_FAILURE() << end;
  return entries[0];
}

TEST(VisionLayout, EveryNamedModelFollowsFromNamesAndShapes) {
  for (const std::string& name : models::ImageVariantNames()) {
    const ImageClassifierConfig config = *models::ImageVariant(name);
    // No trace is left of the normalisation.
    if (absl::EndsWith(name, "_unnormalized")) continue;
    const int heads = std::visit([](const auto& c) { return c.heads; }, config);
    const absl::StatusOr<VisionLayout> layout =
        VisionLayoutOf(EntriesOf(config, "_orig_mod.module."),
                       {.heads = heads, .image_size = models::image_size(config)}, "x.pth");
    ASSERT_TRUE(layout.ok()) << name << ": " << layout.status();
    EXPECT_EQ(layout->config, config) << name;
    EXPECT_EQ(layout->prefix, "_orig_mod.module.");
  }
}

TEST(VisionLayout, HeadsAreAskedForWhereTheyCannotBeSeen) {
  const auto heads = [](const ImageClassifierConfig& config, int stated) {
    return VisionLayoutOf(EntriesOf(config), {.heads = stated}, "x.pth").status();
  };
  EXPECT_TRUE(heads(Tiny(VisionMixer::kTssa), 0).ok());
  EXPECT_TRUE(heads(Tiny(VisionMixer::kCrossCovariance), 0).ok());
  for (const ImageClassifierConfig& config :
       {ImageClassifierConfig(Tiny(VisionMixer::kAttention)), ImageClassifierConfig(kTinyCrate)}) {
    ExpectOneLine(heads(config, 0), {"x.pth", "heads cannot be seen", "--heads"});
    ExpectOneLine(heads(config, 3), {"x.pth: width 16 is not a multiple of heads 3"});
    EXPECT_TRUE(heads(config, 2).ok());
  }
  ExpectOneLine(heads(Tiny(VisionMixer::kTssa), 4),
                {"x.pth: --heads says heads = 4, but the tensors say 2"});
}

TEST(VisionLayout, CrateKnowsItsPictureSizeAndTheOthersAreTold) {
  const auto layout = [](const ImageClassifierConfig& config, int64_t size) {
    return VisionLayoutOf(EntriesOf(config), {.heads = 2, .image_size = size}, "x.pth");
  };
  EXPECT_EQ(models::image_size(layout(Tiny(VisionMixer::kTssa), 0)->config), 224);
  EXPECT_EQ(models::image_size(layout(Tiny(VisionMixer::kTssa), 96)->config), 96);
  EXPECT_EQ(models::image_size(layout(kTinyCrate, 0)->config), 20);
  ExpectOneLine(layout(kTinyCrate, 32).status(),
                {"x.pth: --image_size says image_size = 32, but the tensors say 20"});
  ExpectOneLine(layout(Tiny(VisionMixer::kTssa), -1).status(), {"image_size must be at least 1"});
}

TEST(VisionLayout, TheDescriptionGivesWhatLeavesNoTraceAndMustFitTheRest) {
  VisionConfig config = Tiny(VisionMixer::kAttention);
  config.normalized_memberships = false;
  config.normalize_all_tokens = false;
  config.image_size = 64;
  const std::vector<TensorEntry> entries = EntriesOf(config);
  VisionStatements stated{.config = config, .config_source = "config.json"};
  EXPECT_EQ(VisionLayoutOf(entries, stated, "x.pth")->config, ImageClassifierConfig(config));
  CrateConfig crate = kTinyCrate;
  crate.step = 0.3;
  EXPECT_EQ(VisionLayoutOf(EntriesOf(crate), {.config = crate}, "x.pth")->config,
            ImageClassifierConfig(crate));
  config.depth = 4;
  stated.config = config;
  ExpectOneLine(
      VisionLayoutOf(entries, stated, "x.pth").status(),
      {"x.pth: config.json describes another architecture", "\"depth\":4", "\"depth\":3"});
  stated.config = kTinyCrate;
  ExpectOneLine(VisionLayoutOf(entries, stated, "x.pth").status(),
                {"x.pth: config.json describes another architecture"});
}

TEST(VisionLayout, CountersOfBatchNormAreIgnored) {
  std::vector<TensorEntry> entries = EntriesOf(Tiny(VisionMixer::kTssa));
  entries.push_back({.name = "patch_embed.proj.0.1.num_batches_tracked", .dtype = "I64"});
  const absl::StatusOr<VisionLayout> layout = VisionLayoutOf(entries, {}, "x.pth");
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_THAT(layout->counters, testing::ElementsAre(entries.size() - 1));
}

TEST(VisionLayout, AllMissingUnexpectedAndWrongTensorsAreListed) {
  std::vector<TensorEntry> entries = EntriesOf(Tiny(VisionMixer::kTssa));
  Find(entries, "blocks.1.norm1.weight").name = "blocks.1.norm_one.weight";
  Find(entries, "blocks.2.attn.temp").shape = {5, 1};
  Find(entries, "proj.2.1.running_var").name = "running_variance";
  ExpectOneLine(VisionLayoutOf(entries, {}, "x.pth").status(),
                {"x.pth is no complete image classifier", "2 missing (", "blocks.1.norm1.weight",
                 "patch_embed.proj.2.1.running_var", "2 unexpected (", "blocks.1.norm_one.weight",
                 "running_variance", "1 wrongly shaped (", "blocks.2.attn.temp [5, 1]"});
}

TEST(VisionLayout, TensorsOfSomethingElse) {
  ExpectOneLine(VisionLayoutOf({}, {}, "x.pth").status(), {"x.pth holds no image classifier"});
  // A plain ViT: one convolution, learned positions.
  const std::vector<TensorEntry> plain{
      {.name = "patch_embed.proj.weight", .dtype = "F32", .shape = {16, 3, 16, 16}},
      {.name = "blocks.0.norm2.weight", .dtype = "F32", .shape = {16}}};
  EXPECT_TRUE(LooksLikeImageClassifier(plain));
  ExpectOneLine(VisionLayoutOf(plain, {}, "x.pth").status(), {"x.pth holds no image classifier"});
  const std::vector<TensorEntry> language{
      {.name = "module.transformer.h.0.attn.c_attn.weight", .dtype = "F32", .shape = {8, 8}},
      {.name = "module.transformer.wte.weight", .dtype = "F32", .shape = {11, 8}}};
  EXPECT_FALSE(LooksLikeImageClassifier(language));
  EXPECT_TRUE(LooksLikeImageClassifier(EntriesOf(kTinyCrate, "module.")));
  EXPECT_TRUE(LooksLikeImageClassifier(EntriesOf(Tiny(VisionMixer::kAttention), "_orig_mod.")));
}

}  // namespace
}  // namespace tost::train
