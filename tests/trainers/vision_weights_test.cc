#include "trainers/vision_weights.h"

#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "models/image_classifier.h"
#include "tests/data/test_files.h"

namespace tost::train {
namespace {

using models::CrateConfig;
using models::ImageClassifier;

TEST(ResampledPositions, OfTheSameSideAreTheSame) {
  const std::vector<float> positions = {9, 9, 1, 2, 3, 4, 5, 6, 7, 8};  // class token, 2 x 2 of 2
  EXPECT_EQ(ResampledPositions(positions, 2, 2, 2), positions);
}

TEST(ResampledPositions, LieBetweenTheOldCentresAndHoldAtTheBorder) {
  const std::vector<float> positions = {9, 0, 4, 8, 12};
  const std::vector<float> four = ResampledPositions(positions, 2, 4, 1);
  // Columns 0, 1, 3, 4 of a line from 0 to 4, and as much again downwards, twice as steep.
  EXPECT_EQ(four, (std::vector<float>{9, 0, 1, 3, 4, 2, 3, 5, 6, 6, 7, 9, 10, 8, 9, 11, 12}));
  EXPECT_EQ(ResampledPositions(positions, 2, 1, 1), (std::vector<float>{9, 6}));
}

struct Model {
  explicit Model(const CrateConfig& config, uint64_t seed) : params(Device::Cpu(), seed) {
    classifier = std::make_unique<ImageClassifier>(params.Root(), config);
    params.Finalize();
  }
  std::vector<float> Values(const char* name) { return params.Find(name)->value().ToHost(); }

  ParameterSet params;
  std::unique_ptr<ImageClassifier> classifier;
};

TEST(LoadStartingWeights, AdaptsPositionsAndLeavesOutTheHead) {
  const TemporaryFolder folder;
  const std::string path = folder.File("weights.safetensors");
  const CrateConfig config{
      .image_size = 16, .patch = 8, .width = 8, .depth = 1, .heads = 2, .classes = 3};
  Model saved(config, 1);
  ASSERT_TRUE(SaveCheckpoint(path, saved.params, nullptr, {}).ok());
  const Checkpoint checkpoint = *Checkpoint::Open(path);

  CrateConfig larger = config;
  larger.image_size = 24;
  larger.classes = 5;
  Model loaded(larger, 2);
  const std::vector<float> head = loaded.Values("mlp_head.1.weight");
  ExpectOneLine(LoadStartingWeights(checkpoint, /*reset_head=*/false, loaded.params),
                {"mlp_head.1.weight"});
  ASSERT_TRUE(LoadStartingWeights(checkpoint, /*reset_head=*/true, loaded.params).ok());
  EXPECT_EQ(loaded.Values("mlp_head.1.weight"), head);
  EXPECT_EQ(loaded.Values("transformer.layers.0.1.fn.weight"),
            saved.Values("transformer.layers.0.1.fn.weight"));
  EXPECT_EQ(loaded.Values("pos_embedding"),
            ResampledPositions(saved.Values("pos_embedding"), 2, 3, 8));

  CrateConfig wider = config;
  wider.width = 16;
  Model other(wider, 2);
  EXPECT_FALSE(LoadStartingWeights(checkpoint, /*reset_head=*/true, other.params).ok());
}

}  // namespace
}  // namespace tost::train
