#include "data/image_ops.h"

#include <algorithm>
#include <numeric>
#include <ostream>

#include "autograd/base/errors.h"

namespace tost::data {
namespace {

constexpr int kChannels = 3;

using Table = std::array<uint8_t, 256>;
using Histogram = std::array<int64_t, 256>;

template <class Fn>
Table TableOf(Fn&& value) {
  Table table;
  for (int v = 0; v < 256; ++v) table[static_cast<size_t>(v)] = static_cast<uint8_t>(value(v));
  return table;
}

Table Identity() {
  return TableOf([](int v) { return v; });
}

Image Mapped(Image image, const std::array<Table, kChannels>& tables) {
  for (size_t i = 0; i < image.pixels.size(); i += kChannels) {
    for (size_t c = 0; c < kChannels; ++c) image.pixels[i + c] = tables[c][image.pixels[i + c]];
  }
  return image;
}

Image Mapped(Image image, const Table& table) {
  return Mapped(std::move(image), {table, table, table});
}

std::array<Histogram, kChannels> Histograms(const Image& image) {
  std::array<Histogram, kChannels> counts{};
  for (size_t i = 0; i < image.pixels.size(); i += kChannels) {
    for (size_t c = 0; c < kChannels; ++c) ++counts[c][image.pixels[i + c]];
  }
  return counts;
}

// L of each pixel.
std::vector<uint8_t> Luma(const Image& image) {
  std::vector<uint8_t> luma(image.pixels.size() / kChannels);
  const uint8_t* pixel = image.pixels.data();
#pragma omp simd
  for (size_t i = 0; i < luma.size(); ++i) {
    const int32_t weighted =
        19595 * pixel[3 * i] + 38470 * pixel[3 * i + 1] + 7471 * pixel[3 * i + 2];
    luma[i] = static_cast<uint8_t>((weighted + 0x8000) >> 16);
  }
  return luma;
}

inline uint8_t Blend(int degenerate, float factor, int value) {
  float blended = static_cast<float>(degenerate) + factor * static_cast<float>(value - degenerate);
  blended = blended > 0 ? blended : 0;
  blended = blended < 255 ? blended : 255;
  return static_cast<uint8_t>(static_cast<int>(blended));
}

// Of every value, against one that is the same for the whole picture.
Image BlendWith(uint8_t degenerate, Image image, double factor) {
  return Mapped(std::move(image),
                TableOf([&](int v) { return Blend(degenerate, static_cast<float>(factor), v); }));
}

// Weighted sums of three pixels next to each other, for values [kChannels, size - kChannels).
void SumsAlong(const uint8_t* row, size_t size, float middle, float* sums) {
  constexpr float kSide = 1.0f / 13.0f;
#pragma omp simd
  for (size_t i = kChannels; i < size - kChannels; ++i) {
    sums[i] = static_cast<float>(row[i - kChannels]) * kSide + static_cast<float>(row[i]) * middle +
              static_cast<float>(row[i + kChannels]) * kSide;
  }
}

Table AutoContrastTable(const Histogram& counts) {
  int low = 0, high = 255;
  while (low < 255 && counts[static_cast<size_t>(low)] == 0) ++low;
  while (high > low && counts[static_cast<size_t>(high)] == 0) --high;
  if (high == low) return Identity();
  const double scale = 255.0 / (high - low), offset = -low * scale;
  return TableOf([&](int v) { return std::clamp(static_cast<int>(v * scale + offset), 0, 255); });
}

Table EqualizeTable(const Histogram& counts) {
  const int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  const auto last = std::find_if(counts.rbegin(), counts.rend(), [](int64_t n) { return n > 0; });
  const int64_t step = last == counts.rend() ? 0 : (total - *last) / 255;
  // A single value leaves total - *last = 0.
  if (step == 0) return Identity();
  int64_t below = step / 2;
  return TableOf([&](int v) {
    const int64_t value = below / step;
    below += counts[static_cast<size_t>(v)];
    return std::min<int64_t>(255, value);
  });
}

}  // namespace

Image AdjustBrightness(Image image, double factor) {
  return BlendWith(0, std::move(image), factor);
}

Image AdjustColor(Image image, double factor) {
  const std::vector<uint8_t> luma = Luma(image);
  const float f = static_cast<float>(factor);
  uint8_t* pixel = image.pixels.data();
#pragma omp simd
  for (size_t i = 0; i < luma.size(); ++i) {
    pixel[3 * i] = Blend(luma[i], f, pixel[3 * i]);
    pixel[3 * i + 1] = Blend(luma[i], f, pixel[3 * i + 1]);
    pixel[3 * i + 2] = Blend(luma[i], f, pixel[3 * i + 2]);
  }
  return image;
}

Image AdjustContrast(Image image, double factor) {
  const std::vector<uint8_t> luma = Luma(image);
  const int64_t sum = std::accumulate(luma.begin(), luma.end(), int64_t{0});
  const double mean = static_cast<double>(sum) / static_cast<double>(luma.size());
  return BlendWith(static_cast<uint8_t>(mean + 0.5), std::move(image), factor);
}

Image AdjustSharpness(Image image, double factor) {
  if (image.width < 3 || image.height < 3) return image;
  const Image original = image;
  const size_t size = static_cast<size_t>(image.width) * kChannels;
  const float f = static_cast<float>(factor);
  std::vector<float> above(size), here(size), below(size);
  for (int y = 1; y < image.height - 1; ++y) {
    const uint8_t* in = original.Pixel(0, y);
    uint8_t* out = image.Pixel(0, y);
    SumsAlong(in + size, size, 1.0f / 13.0f, below.data());
    SumsAlong(in, size, 5.0f / 13.0f, here.data());
    SumsAlong(in - size, size, 1.0f / 13.0f, above.data());
#pragma omp simd
    for (size_t i = kChannels; i < size - kChannels; ++i) {
      // The order of the sums decides the last bit, and with it some truncated values.
      const float smoothed = 0.5f + below[i] + here[i] + above[i];
      out[i] = Blend(static_cast<int>(smoothed), f, in[i]);
    }
  }
  return image;
}

Image AutoContrast(Image image) {
  const auto counts = Histograms(image);
  return Mapped(std::move(image), {AutoContrastTable(counts[0]), AutoContrastTable(counts[1]),
                                   AutoContrastTable(counts[2])});
}

Image Equalize(Image image) {
  const auto counts = Histograms(image);
  return Mapped(std::move(image),
                {EqualizeTable(counts[0]), EqualizeTable(counts[1]), EqualizeTable(counts[2])});
}

Image Posterize(Image image, int bits) {
  TOST_CHECK(bits >= 0 && bits <= 8) << "Posterize to " << bits << " bits";
  const int mask = 0xff & ~((1 << (8 - bits)) - 1);
  return Mapped(std::move(image), TableOf([&](int v) { return v & mask; }));
}

Image Solarize(Image image, double threshold) {
  return Mapped(std::move(image), TableOf([&](int v) { return v < threshold ? v : 255 - v; }));
}

Image SolarizeAdd(Image image, int addition) {
  return Mapped(std::move(image),
                TableOf([&](int v) { return v < 128 ? std::min(255, v + addition) : v; }));
}

Image Invert(Image image) {
  return Mapped(std::move(image), TableOf([](int v) { return 255 - v; }));
}

}  // namespace tost::data
