// Milliseconds of decoding a picture, one thread.
//
//   TOST_BENCH_IMAGE=photo.jpg image_bench --benchmark_filter='decode/|load/'
//
// decode/… is a whole picture of 500 x 375, ImageNet's usual extents, decode/file the one that
// TOST_BENCH_IMAGE names; region/… a part, as training asks for it: it is going to be resized to
// 224 x 224. load/… is all that the training loader does with the bytes of a picture, that of
// TOST_BENCH_IMAGE if there is one: the header, what part, its pixels, their augmentation.

#include <cmath>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "autograd/base/errors.h"
#include "benchmark/benchmark.h"
#include "data/atomic_file.h"
#include "data/augment.h"
#include "data/image_decode.h"
#include "data/image_write.h"
#include "data/libjpeg.h"

namespace tost::data {
namespace {

// Waves and noise: at quality 90 about 1.8 bits a pixel, as a photograph has.
Image Drawn(int width, int height) {
  Image image(width, height);
  std::mt19937 random(1);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const double noise = static_cast<double>(random() % 16);
      uint8_t* rgb = image.Pixel(x, y);
      rgb[0] = static_cast<uint8_t>(120 + 90 * std::sin(x * 0.05 + y * 0.02) + noise);
      rgb[1] = static_cast<uint8_t>(120 + 90 * std::cos(x * 0.02 - y * 0.07) + noise);
      rgb[2] = static_cast<uint8_t>((x / 40 + y / 30) % 2 == 0 ? 60 + noise : 180 + noise);
    }
  }
  return image;
}

// 4:2:0, as cameras do.
std::string Jpeg(const Image& image, bool progressive) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = static_cast<JDIMENSION>(image.width);
  info.image_height = static_cast<JDIMENSION>(image.height);
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 90, TRUE);
  if (progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  Image rows = image;
  for (int y = 0; y < image.height; ++y) {
    JSAMPROW row = rows.Pixel(0, y);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::string jpeg(reinterpret_cast<const char*>(bytes), size);
  jpeg_destroy_compress(&info);
  std::free(bytes);
  return jpeg;
}

void Whole(benchmark::State& state, const std::string& bytes) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        TOST_CHECK_VALUE(DecodeImage(bytes, "a", Orientation::kUpright)).pixels.data());
  }
  state.counters["bytes"] = static_cast<double>(bytes.size());
}

void Part(benchmark::State& state, const std::string& bytes, const Region& region) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        TOST_CHECK_VALUE(DecodeRegion(bytes, "a", Orientation::kUpright, region, 224, 224))
            .image.pixels.data());
  }
}

// Crops differ from picture to picture, so times are means over many.
void Load(benchmark::State& state, const std::string& bytes, const AugmentOptions& options) {
  std::vector<float> out(static_cast<size_t>(options.size) * static_cast<size_t>(options.size) * 3);
  RandomKey key;
  for (auto _ : state) {
    const ImageHeader header = TOST_CHECK_VALUE(ReadImageHeader(bytes, "a", Orientation::kUpright));
    const Region region = RandomCropRegion(options, header.width, header.height, key);
    const DecodedRegion part = TOST_CHECK_VALUE(
        DecodeRegion(bytes, "a", Orientation::kUpright, region, options.size, options.size));
    Augment(options, part.image, {part.x0, part.y0, part.x1, part.y1}, key, out);
    benchmark::DoNotOptimize(out.data());
    ++key.first_row;
  }
  state.SetItemsProcessed(state.iterations());
}

template <class... Arguments>
void Register(const std::string& name, Arguments... arguments) {
  benchmark::RegisterBenchmark(name.c_str(), arguments...)->Unit(benchmark::kMillisecond);
}

void RegisterAll() {
  const Image image = Drawn(500, 375);
  const std::string baseline = Jpeg(image, /*progressive=*/false);
  Register("decode/jpeg", Whole, baseline);
  Register("decode/jpeg_progressive", Whole, Jpeg(image, /*progressive=*/true));
  Register("decode/png", Whole, EncodePng(image));
  std::string loaded = baseline;
  if (const char* const path = std::getenv("TOST_BENCH_IMAGE")) {
    loaded = TOST_CHECK_VALUE(ReadFile(path));
    Register("decode/file", Whole, loaded);
  }
  Register("region/middle_240x240", Part, baseline, Region{130, 70, 240, 240});
  Register("region/above_120x90", Part, baseline, Region{300, 20, 120, 90});
  Register("region/large_of_2000x1500", Part, Jpeg(Drawn(2000, 1500), /*progressive=*/false),
           Region{200, 100, 1400, 1200});
  const RandAugment policy = TOST_CHECK_VALUE(ParseRandAugment("rand-m9-mstd0.5-inc1"));
  Register("load/crop_and_flip", Load, loaded, AugmentOptions{});
  Register("load/pretraining", Load, loaded,
           AugmentOptions{.rand_augment = policy, .erase_probability = 0.25f});
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
