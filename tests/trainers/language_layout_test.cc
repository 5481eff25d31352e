#include "trainers/language_layout.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"

namespace tost::train {
namespace {

using models::LanguageConfig;
using What = Stated::What;

LanguageConfig Tiny(models::Mixer mixer, bool bias, bool scale) {
  return {.mixer = mixer,
          .layers = 3,
          .heads = 2,
          .width = 8,
          .context = 6,
          .vocabulary = 11,
          .bias = bias,
          .layer_scale = scale ? std::optional(1e-5f) : std::nullopt};
}

// The entries of a file that holds a model's parameters.
std::vector<TensorEntry> EntriesOf(const LanguageConfig& config, const std::string& prefix = "") {
  ParameterSet params(Device::Cpu(), 0);
  const models::LanguageModel model(params.Root(), config);
  std::vector<TensorEntry> entries;
  for (const Parameter& parameter : params.parameters()) {
    const auto extents = parameter.shape().extents();
    entries.push_back({.name = prefix + parameter.name(),
                       .dtype = "F32",
                       .shape = {extents.begin(), extents.end()}});
  }
  return entries;
}

TensorEntry& Find(std::vector<TensorEntry>& entries, const std::string& end) {
  for (TensorEntry& entry : entries) {
    if (absl::EndsWith(entry.name, end)) return entry;
  }
  ADD_FAILURE() << end;
  return entries[0];
}

const std::vector<Stated> kTwoHeads{{What::kHeads, 2, "--heads"}};

TEST(LanguageLayout, EveryArchitectureFollowsFromNamesAndShapes) {
  for (const bool bias : {false, true}) {
    for (const bool scale : {false, true}) {
      for (const models::Mixer mixer : {models::Mixer::kTssa, models::Mixer::kAttention}) {
        const LanguageConfig config = Tiny(mixer, bias, scale);
        const absl::StatusOr<LanguageLayout> layout =
            LanguageLayoutOf(EntriesOf(config, "_orig_mod."), kTwoHeads, "x.pt");
        ASSERT_TRUE(layout.ok()) << layout.status();
        EXPECT_EQ(layout->config, config);
        EXPECT_EQ(layout->prefix, "_orig_mod.");
        EXPECT_FALSE(layout->transposed);
        EXPECT_FALSE(layout->head.has_value());
      }
    }
  }
}

TEST(LanguageLayout, HuggingFaceTransposesAndLeavesTheRootOut) {
  const LanguageConfig config = Tiny(models::Mixer::kAttention, true, false);
  std::vector<TensorEntry> entries = EntriesOf(config);
  for (TensorEntry& entry : entries) {
    if (IsLinearWeight(entry.name)) std::swap(entry.shape[0], entry.shape[1]);
    entry.name = std::string(absl::StripPrefix(entry.name, "transformer."));
  }
  entries.push_back({.name = "h.0.attn.bias", .dtype = "BOOL", .shape = {1, 1, 6, 6}});
  entries.push_back({.name = "h.0.attn.masked_bias", .dtype = "F32", .shape = {}});
  entries.push_back({.name = "lm_head.weight", .dtype = "F32", .shape = {11, 8}});
  const absl::StatusOr<LanguageLayout> layout = LanguageLayoutOf(entries, kTwoHeads, "x.bin");
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->config, config);
  EXPECT_TRUE(layout->transposed);
  EXPECT_EQ(layout->ignored.size(), 2u);
  EXPECT_EQ(layout->head, entries.size() - 1);
  EXPECT_EQ(entries[layout->used.at("transformer.h.0.attn.c_attn.bias")].name,
            "h.0.attn.c_attn.bias");
}

TEST(LanguageLayout, HeadAloneStandsForTheEmbedding) {
  std::vector<TensorEntry> entries = EntriesOf(Tiny(models::Mixer::kTssa, false, true));
  Find(entries, "wte.weight").name = "lm_head.weight";
  const absl::StatusOr<LanguageLayout> layout = LanguageLayoutOf(entries, {}, "x.pt");
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(entries[layout->used.at("transformer.wte.weight")].name, "lm_head.weight");
  EXPECT_FALSE(layout->head.has_value());
}

TEST(LanguageLayout, AllMissingUnexpectedAndWrongTensorsAreListed) {
  std::vector<TensorEntry> entries = EntriesOf(Tiny(models::Mixer::kTssa, false, true));
  Find(entries, "h.1.ln_1.weight").name = "transformer.h.1.ln_one.weight";
  Find(entries, "h.2.attn.temp").shape = {5, 1};
  Find(entries, "wpe.weight").name = "positions";
  // The mask's name with the shape of a bias is no mask.
  entries.push_back({.name = "transformer.h.0.attn.bias", .dtype = "F32", .shape = {8}});
  ExpectOneLine(
      LanguageLayoutOf(entries, {}, "x.pt").status(),
      {"x.pt", "2 missing (", "transformer.wpe.weight", "transformer.h.1.ln_1.weight",
       "3 unexpected (", "positions", "transformer.h.1.ln_one.weight", "transformer.h.0.attn.bias",
       "wrongly shaped (", "transformer.h.2.attn.temp [5, 1]"});
}

TEST(LanguageLayout, TensorsOfSomethingElse) {
  ExpectOneLine(LanguageLayoutOf({}, {}, "x.pt").status(), {"x.pt holds no language model"});
  const std::vector<TensorEntry> vision{
      {.name = "blocks.0.attn.qkv.weight", .dtype = "F32", .shape = {8, 8}}};
  ExpectOneLine(LanguageLayoutOf(vision, {}, "x.pt").status(), {"x.pt holds no language model"});
  std::vector<TensorEntry> twice = EntriesOf(Tiny(models::Mixer::kTssa, false, true));
  twice.push_back({.name = "wte.weight", .dtype = "F32", .shape = {11, 8}});
  ExpectOneLine(LanguageLayoutOf(twice, {}, "x.pt").status(), {"1 unexpected (wte.weight)"});
  // Names with a line break stay in one line.
  twice.back().name = "a\nb";
  ExpectOneLine(LanguageLayoutOf(twice, {}, "x.pt").status(), {"a\\nb"});
}

TEST(LanguageLayout, StatementsMustAgreeWithTheTensors) {
  const std::vector<TensorEntry> tost = EntriesOf(Tiny(models::Mixer::kTssa, false, true));
  const std::vector<TensorEntry> gpt2 = EntriesOf(Tiny(models::Mixer::kAttention, false, false));
  const auto status = [](const std::vector<TensorEntry>& entries, std::vector<Stated> stated) {
    return LanguageLayoutOf(entries, stated, "x.pt").status();
  };
  EXPECT_TRUE(status(tost, {{What::kLayers, 3, "its model_args, n_layer,"}}).ok());
  ExpectOneLine(status(tost, {{What::kLayers, 12, "its model_args, n_layer,"}}),
                {"x.pt: its model_args, n_layer, says layers = 12, but the tensors say 3"});
  ExpectOneLine(status(tost, {{What::kHeads, 4, "--heads"}}),
                {"--heads says heads = 4, but the tensors say 2"});
  ExpectOneLine(status(gpt2, {{What::kTssa, 1, "config.json"}}),
                {"heads cannot be seen", "--heads"});
  ExpectOneLine(status(gpt2, {{What::kHeads, 2, "--heads"}, {What::kHeads, 4, "config.json"}}),
                {"config.json says heads = 4, but --heads says 2"});
  ExpectOneLine(status(gpt2, {{What::kHeads, 2, "--heads"}, {What::kTssa, 1, "config.json"}}),
                {"config.json says TSSA = 1, but the tensors say 0"});
  ExpectOneLine(status(gpt2, {}), {"x.pt", "give it with --heads"});
  ExpectOneLine(status(gpt2, {{What::kHeads, 3, "--heads"}}), {"not a multiple of heads 3"});
  ExpectOneLine(status(gpt2, {{What::kHeads, int64_t{1} << 40, "--heads"}}), {"x.pt"});
}

}  // namespace
}  // namespace tost::train
