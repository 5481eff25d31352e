#include "trainers/checkpoint.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"
#include "trainers/weight_average.h"

namespace tost::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A model of two matrices and a vector; with a head of its own if asked for.
std::unique_ptr<ParameterSet> Model(uint64_t seed, bool own_head = false, int64_t width = 4,
                                    DType compute = DType::kFloat32) {
  auto params = std::make_unique<ParameterSet>(Device::Cpu(), seed);
  const ParameterScope root = params->Root() / "transformer";
  (root / "wte").Add("weight", {5, width}, Init::Normal(1), Decay::kYes);
  (root / "h.0").Add("weight", {width, width}, Init::Normal(1), Decay::kYes);
  (root / "ln_f").Add("weight", {width}, Init::Uniform(1), Decay::kNo);
  if (own_head) {
    (params->Root() / "lm_head").Add("weight", {5, width}, Init::Normal(1), Decay::kYes);
  }
  params->Finalize(compute);
  return params;
}

Moments MomentsOf(const ParameterSet& params, float first) {
  Moments moments;
  for (const Bucket& bucket : params.buckets()) {
    std::vector<float> m(static_cast<size_t>(bucket.values.numel()));
    for (size_t i = 0; i < m.size(); ++i) m[i] = first + static_cast<float>(i);
    moments.first.push_back(Tensor::FromHost(bucket.values.shape(), m));
    for (float& x : m) x = x * x;
    moments.second.push_back(Tensor::FromHost(bucket.values.shape(), m));
  }
  return moments;
}

std::vector<float> ValuesOf(const ParameterSet& params) {
  std::vector<float> values;
  for (const Parameter& parameter : params.parameters()) {
    const std::vector<float> some = parameter.value().ToHost();
    values.insert(values.end(), some.begin(), some.end());
  }
  return values;
}

std::vector<std::pair<std::string, Tensor>> TensorsOf(const ParameterSet& params,
                                                      const std::string& prefix) {
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const Parameter& parameter : params.parameters()) {
    tensors.emplace_back(prefix + parameter.name(), parameter.value());
  }
  return tensors;
}

class CheckpointTest : public testing::Test {
 protected:
  absl::Status Load(ParameterSet& params) {
    absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(path_);
    return checkpoint.ok() ? checkpoint->LoadWeights(params) : checkpoint.status();
  }

  TemporaryFolder folder_;
  std::string path_ = folder_.File("checkpoint_0000007.safetensors");
};

TEST_F(CheckpointTest, RoundTripOfWeightsMomentsAndState) {
  const auto saved = Model(1);
  const Moments moments = MomentsOf(*saved, 3);
  const CheckpointState state{.update = 7,
                              .seed = ~uint64_t{0},
                              .tokens = int64_t{1} << 40,
                              .config = "layers = 2\nname = \"é\"\n",
                              .vocabulary = "{\"characters\":[\"\\u0000\"]}",
                              .extra = {{"best_loss", "1.25"}, {"best_update", "5"}}};
  ASSERT_TRUE(SaveCheckpoint(path_, *saved, &moments, state).ok());

  const absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(path_);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const absl::StatusOr<CheckpointState> read = checkpoint->State();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->update, state.update);
  EXPECT_EQ(read->seed, state.seed);
  EXPECT_EQ(read->tokens, state.tokens);
  EXPECT_EQ(read->config, state.config);
  EXPECT_EQ(read->vocabulary, state.vocabulary);
  EXPECT_EQ(read->extra, state.extra);

  const auto loaded = Model(2);
  EXPECT_NE(ValuesOf(*loaded), ValuesOf(*saved));
  ASSERT_TRUE(checkpoint->LoadWeights(*loaded).ok());
  EXPECT_EQ(ValuesOf(*loaded), ValuesOf(*saved));
  Moments read_moments = MomentsOf(*loaded, -1);
  ASSERT_TRUE(checkpoint->LoadMoments(*loaded, read_moments).ok());
  for (size_t b = 0; b < saved->buckets().size(); ++b) {
    const Bucket& bucket = saved->buckets()[b];
    for (size_t i = 0; i < bucket.parameters.size(); ++i) {
      const Shape& shape = bucket.parameters[i]->shape();
      const int64_t at = bucket.offsets[i];
      EXPECT_EQ(read_moments.first[b].View(at, shape).ToHost(),
                moments.first[b].View(at, shape).ToHost());
      EXPECT_EQ(read_moments.second[b].View(at, shape).ToHost(),
                moments.second[b].View(at, shape).ToHost());
    }
  }
}

TEST_F(CheckpointTest, StatesLieAmongTheWeights) {
  const auto model = [](float variance) {
    auto params = std::make_unique<ParameterSet>(Device::Cpu(), 1);
    const ParameterScope norm = params->Root() / "norm";
    norm.Add("weight", {2}, Init::Ones(), Decay::kNo);
    norm.AddState("running_var", {2}, Init::Constant(variance));
    params->Finalize();
    return params;
  };
  const auto saved = model(3), loaded = model(1);
  const Moments moments = MomentsOf(*saved, 3);
  ASSERT_TRUE(SaveCheckpoint(path_, *saved, &moments, {}).ok());
  ASSERT_TRUE(Load(*loaded).ok());
  EXPECT_THAT(loaded->states()[0].value().ToHost(), ElementsAre(3, 3));

  ASSERT_TRUE(WriteSafetensors(path_, TensorsOf(*saved, "")).ok());
  EXPECT_THAT(std::string(Load(*loaded).message()), HasSubstr("1 missing (norm.running_var)"));
}

TEST_F(CheckpointTest, SgdHasOneMomentAndAnAverageLiesBesideTheWeights) {
  const auto saved = Model(1);
  Moments moments = MomentsOf(*saved, 3);
  moments.second.clear();
  WeightAverage average(*saved, 0.5);
  ASSERT_TRUE(SaveCheckpoint(path_, *saved, &moments, {}, &average.values()).ok());

  const auto loaded = Model(2);
  const Checkpoint checkpoint = *Checkpoint::Open(path_);
  EXPECT_TRUE(checkpoint.has_average());
  ASSERT_TRUE(checkpoint.LoadWeights(*loaded).ok());
  Moments one = MomentsOf(*loaded, -1);
  EXPECT_THAT(std::string(checkpoint.LoadMoments(*loaded, one).message()), HasSubstr("3 missing"));
  one.second.clear();
  EXPECT_TRUE(checkpoint.LoadMoments(*loaded, one).ok());
  const auto third = Model(3);
  WeightAverage read(*third, 0.5);
  ASSERT_TRUE(checkpoint.LoadAverage(*third, read.values()).ok());
  read.Swap();
  EXPECT_EQ(ValuesOf(*third), ValuesOf(*saved));
}

TEST_F(CheckpointTest, LoadingRefreshesTheBFloat16Copies) {
  const auto saved = Model(1);
  ASSERT_TRUE(SaveCheckpoint(path_, *saved, nullptr, {}).ok());
  const auto loaded = Model(2, false, 4, DType::kBFloat16);
  ASSERT_TRUE(Load(*loaded).ok());
  const Parameter& weight = *loaded->Find("transformer.h.0.weight");
  EXPECT_EQ(weight.In(DType::kBFloat16).ToHost(),
            Converted(weight.value(), DType::kBFloat16).ToHost());
}

TEST_F(CheckpointTest, WeightsOnlyFilesCannotBeResumed) {
  const auto params = Model(1);
  ASSERT_TRUE(SaveCheckpoint(path_, *params, nullptr, {}).ok());
  const absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(path_);
  EXPECT_FALSE(checkpoint->has_moments());
  Moments moments = MomentsOf(*params, 0);
  ExpectOneLine(checkpoint->LoadMoments(*params, moments), {path_, "no optimizer moments"});
  ASSERT_TRUE(WriteSafetensors(path_, TensorsOf(*params, "")).ok());
  ExpectOneLine(Checkpoint::Open(path_)->State().status(), {path_, "weights only"});
  ASSERT_TRUE(WriteSafetensors(path_, TensorsOf(*params, ""),
                               {{"format", "tost checkpoint"}, {"version", "9"}})
                  .ok());
  ExpectOneLine(Checkpoint::Open(path_)->State().status(), {"version 9"});
  ASSERT_TRUE(WriteSafetensors(path_, TensorsOf(*params, ""),
                               {{"format", "tost checkpoint"}, {"version", "1"}, {"update", "x"}})
                  .ok());
  ExpectOneLine(Checkpoint::Open(path_)->State().status(), {path_, "\"update\""});
}

TEST_F(CheckpointTest, AllMismatchesAreListedAndNothingIsSet) {
  const auto params = Model(1);
  const std::vector<float> before = ValuesOf(*params);
  const Tensor other = Tensor::Zeros(Shape{3, 3}, DType::kFloat32);
  ASSERT_TRUE(WriteSafetensors(
                  path_, {{"transformer.wte.weight", other},
                          {"transformer.h.0.weights", other},
                          {"zz", other},
                          {"transformer.ln_f.weight", Tensor::Zeros(Shape{4}, DType::kFloat32)}})
                  .ok());
  ExpectOneLine(
      Load(*params),
      {path_, "1 missing (transformer.h.0.weight)", "2 unexpected (transformer.h.0.weights, zz)",
       "1 wrongly shaped (transformer.wte.weight [3, 3] in the file, [5, 4] in the model)"});
  EXPECT_EQ(ValuesOf(*params), before);
}

TEST_F(CheckpointTest, WrapperPrefixesAreTakenOffAndMentioned) {
  const auto saved = Model(1);
  for (const std::string prefix : {"_orig_mod.", "module.", "module._orig_mod."}) {
    ASSERT_TRUE(WriteSafetensors(path_, TensorsOf(*saved, prefix)).ok());
    const auto loaded = Model(2);
    testing::internal::CaptureStderr();
    EXPECT_TRUE(Load(*loaded).ok());
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("\"" + prefix + "\""));
    EXPECT_EQ(ValuesOf(*loaded), ValuesOf(*saved));
  }
}

TEST_F(CheckpointTest, HeadMayRepeatTheEmbeddingItIsTiedTo) {
  const auto saved = Model(1);
  std::vector<std::pair<std::string, Tensor>> tensors = TensorsOf(*saved, "");
  tensors.emplace_back("lm_head.weight", saved->Find("transformer.wte.weight")->value());
  ASSERT_TRUE(WriteSafetensors(path_, tensors).ok());
  const auto loaded = Model(2);
  EXPECT_TRUE(Load(*loaded).ok());
  EXPECT_EQ(ValuesOf(*loaded), ValuesOf(*saved));
  tensors.back().second = Tensor::Zeros(Shape{5, 4}, DType::kFloat32);
  ASSERT_TRUE(WriteSafetensors(path_, tensors).ok());
  ExpectOneLine(Load(*loaded), {"lm_head.weight differs from transformer.wte.weight"});
  ASSERT_TRUE(SaveCheckpoint(path_, *saved, nullptr, {}).ok());
  ExpectOneLine(Load(*Model(1, /*own_head=*/true)), {"1 missing (lm_head.weight)"});
}

TEST_F(CheckpointTest, NewestIsFoundByNumberAndDamageIsPassedOver) {
  const auto params = Model(1);
  const auto save = [&](int64_t update) {
    return SaveCheckpoint(folder_.File(CheckpointName(update)), *params, nullptr,
                          {.update = update});
  };
  ExpectOneLine(NewestCheckpoint(folder_.path()).status(), {folder_.path(), "no checkpoint"});
  for (const int64_t update : {900, 1000, 12345678}) ASSERT_TRUE(save(update).ok());
  WriteBytes(folder_.File("checkpoint_best.safetensors"), "not counted");
  EXPECT_EQ(CheckpointName(1000), "checkpoint_0001000.safetensors");
  EXPECT_EQ(*NewestCheckpoint(folder_.path()), folder_.File("checkpoint_12345678.safetensors"));
  const std::string newest = folder_.File("checkpoint_12345678.safetensors");
  WriteBytes(newest, ReadBytes(newest).substr(0, 300));
  testing::internal::CaptureStderr();
  EXPECT_EQ(*NewestCheckpoint(folder_.path()), folder_.File("checkpoint_0001000.safetensors"));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("checkpoint_12345678"));
}

TEST_F(CheckpointTest, PruningKeepsTheNewest) {
  for (const int64_t update : {1, 5, 20, 100}) {
    WriteBytes(folder_.File(CheckpointName(update)), "x");
  }
  WriteBytes(folder_.File(CheckpointName(101) + ".tmp"), "interrupted");
  WriteBytes(folder_.File("notes.txt.tmp"), "not ours");
  ASSERT_TRUE(PruneCheckpoints(folder_.path(), 0).ok());
  EXPECT_EQ(ListCheckpoints(folder_.path()).size(), 4u);
  ASSERT_TRUE(PruneCheckpoints(folder_.path(), 2).ok());
  EXPECT_THAT(folder_.Names(), ElementsAre("checkpoint_0000020.safetensors",
                                           "checkpoint_0000100.safetensors", "notes.txt.tmp"));
}

}  // namespace
}  // namespace tost::train
