// Milliseconds of augmenting one picture to 224 x 224, one thread, on noise: the steps one by one
// and two recipes, without decoding. What an augmentation draws differs from picture to picture, so
// times are means over many.

#include <cstdint>
#include <string>
#include <vector>

#include "autograd/base/errors.h"
#include "benchmark/benchmark.h"
#include "data/augment.h"

namespace tost::data {
namespace {

constexpr int kSize = 224;

Image Noise(int width, int height) {
  Image image(width, height);
  uint32_t state = 1;
  for (uint8_t& value : image.pixels) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<uint8_t>(state >> 24);
  }
  return image;
}

// ImageNet's usual extents.
const Image& Large() {
  static const Image* const image = new Image(Noise(500, 375));
  return *image;
}

const Image& Small() {
  static const Image* const image = new Image(Noise(kSize, kSize));
  return *image;
}

RandAugment Policy(const char* text) { return TOST_CHECK_VALUE(ParseRandAugment(text)); }

void ResizeWhole(benchmark::State& state, int width, int height, Filter filter) {
  const Image image = Noise(width, height);
  for (auto _ : state) {
    benchmark::DoNotOptimize(Resize(image, kSize, kSize, filter).pixels.data());
  }
}

void RandomAugment(benchmark::State& state, const RandAugment& policy, Filter filter) {
  int64_t row = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        ApplyRandAugment(policy, {filter, {124, 116, 104}}, {.first_row = row++}, 0, Small())
            .pixels.data());
  }
}

void Normalise(benchmark::State& state) {
  std::vector<float> out(Small().pixels.size());
  for (auto _ : state) {
    Normalize(Small(), {}, out);
    benchmark::DoNotOptimize(out.data());
  }
}

void Recipe(benchmark::State& state, const AugmentOptions& options) {
  std::vector<float> out(Small().pixels.size());
  RandomKey key;
  for (auto _ : state) {
    const Region r = RandomCropRegion(options, Large().width, Large().height, key);
    const double x = r.x, y = r.y;
    Augment(options, Large(), {x, y, x + r.width, y + r.height}, key, out);
    benchmark::DoNotOptimize(out.data());
    ++key.first_row;
  }
}

void Evaluation(benchmark::State& state) {
  std::vector<float> out(Small().pixels.size());
  for (auto _ : state) {
    PrepareForEvaluation({}, Large(), out);
    benchmark::DoNotOptimize(out.data());
  }
}

template <class... Arguments>
void Register(const std::string& name, Arguments... arguments) {
  benchmark::RegisterBenchmark(name.c_str(), arguments...)->Unit(benchmark::kMillisecond);
}

void RegisterAll() {
  const RandAugment timm = Policy("rand-m9-mstd0.5-inc1"),
                    torchvision = Policy("torchvision-n2-m14");
  Register("resize/400x300_bilinear", ResizeWhole, 400, 300, Filter::kBilinear);
  Register("resize/500x375_bicubic", ResizeWhole, 500, 375, Filter::kBicubic);
  Register("random_resized_crop/bicubic", Recipe, AugmentOptions{.flip_probability = 0});
  Register("rand_augment/timm_bicubic", RandomAugment, timm, Filter::kBicubic);
  Register("rand_augment/timm_bilinear", RandomAugment, timm, Filter::kBilinear);
  Register("rand_augment/torchvision", RandomAugment, torchvision, Filter::kNearest);
  Register("normalise", Normalise);
  Register("recipe/pretraining", Recipe,
           AugmentOptions{.rand_augment = timm, .erase_probability = 0.25f});
  Register("recipe/fine_tuning", Recipe,
           AugmentOptions{.filter = Filter::kBilinear, .rand_augment = torchvision});
  Register("evaluation", Evaluation);
}

}  // namespace
}  // namespace tost::data

int main(int argc, char** argv) {
  tost::data::RegisterAll();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
