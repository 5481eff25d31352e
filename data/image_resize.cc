#include "data/image_resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ostream>

#include "autograd/base/errors.h"
#include "data/image_taps.h"

namespace tost::data {
namespace {

constexpr int kChannels = 3;
constexpr int32_t kRounding = 1 << (kWeightBits - 1);

// The pixels of a picture or of a rectangle in it.
struct Pixels {
  const uint8_t* data;
  size_t stride;  // bytes from row to row
  int width;
  int height;

  const uint8_t* Row(int y) const { return data + static_cast<size_t>(y) * stride; }
};

Pixels RegionOf(const Pixels& pixels, const Region& region) {
  return {pixels.Row(region.y) + static_cast<size_t>(region.x) * kChannels, pixels.stride,
          region.width, region.height};
}

Pixels RegionOf(const Image& image, const Region& region) {
  TOST_CHECK(region.x >= 0 && region.y >= 0 && region.width > 0 && region.height > 0 &&
             region.width <= image.width - region.x && region.height <= image.height - region.y)
      << region.width << "x" << region.height << " pixels at (" << region.x << ", " << region.y
      << ") of a picture of " << image.width << "x" << image.height;
  const Pixels all{image.pixels.data(), static_cast<size_t>(image.width) * kChannels, image.width,
                   image.height};
  return RegionOf(all, region);
}

Pixels All(const Image& image) { return RegionOf(image, {0, 0, image.width, image.height}); }

Image Copy(const Pixels& pixels) {
  Image copy(pixels.width, pixels.height);
  for (int y = 0; y < pixels.height; ++y) {
    std::memcpy(copy.Pixel(0, y), pixels.Row(y), static_cast<size_t>(pixels.width) * kChannels);
  }
  return copy;
}

// Rows are resampled four at a time: sixteen lanes hold a pixel of each. A pixel takes four of
// them, of which the last holds a value that nothing reads.
constexpr int kRowsTogether = 4;
constexpr int kLanes = 4 * kRowsTogether;
using Lanes [[gnu::vector_size(kLanes * sizeof(int32_t))]] = int32_t;
using LaneBytes [[gnu::vector_size(kLanes)]] = uint8_t;
using Pixel [[gnu::vector_size(16)]] = uint32_t;

// Writes the pixels of `row`, behind which a byte is readable, into lanes [4 k, 4 k + 4) of `out`.
void Spread(const uint8_t* row, int width, int k, Lanes* out) {
  for (int x = 0; x < width; ++x, row += kChannels) {
    uint32_t word;
    std::memcpy(&word, row, sizeof(word));
    const Pixel pixel = (Pixel{word, word, word, word} >> Pixel{0, 8, 16, 24}) & 0xff;
    std::memcpy(reinterpret_cast<char*>(out + x) + static_cast<size_t>(k) * sizeof(pixel), &pixel,
                sizeof(pixel));
  }
}

// The outputs of four rows of pixels, four bytes a pixel and row.
void ResampleLanes(const Lanes* in, const Taps& taps, LaneBytes* out) {
  for (const Taps::Range& range : taps.outputs) {
    Lanes sum = Lanes{} + kRounding;
    for (int k = 0; k < range.count; ++k) sum += in[range.first + k] * range.weights[k];
    sum >>= kWeightBits;
    sum = sum < 0 ? 0 : sum;
    sum = sum > 255 ? 255 : sum;
    *out++ = __builtin_convertvector(sum, LaneBytes);
  }
}

Image ResampleRows(const Pixels& in, const Taps& taps) {
  Image result(static_cast<int>(taps.outputs.size()), in.height);
  const size_t size = static_cast<size_t>(in.width) * kChannels;
  std::vector<uint8_t> row(size + 1);
  std::vector<Lanes> lanes(static_cast<size_t>(in.width));
  std::vector<LaneBytes> out(taps.outputs.size());
  for (int y = 0; y < in.height; y += kRowsTogether) {
    const int rows = std::min(kRowsTogether, in.height - y);
    for (int k = 0; k < rows; ++k) {
      std::memcpy(row.data(), in.Row(y + k), size);
      Spread(row.data(), in.width, k, lanes.data());
    }
    ResampleLanes(lanes.data(), taps, out.data());
    for (int k = 0; k < rows; ++k) {
      uint8_t* pixel = result.Pixel(0, y + k);
      for (const LaneBytes& bytes : out) {
        std::memcpy(pixel, reinterpret_cast<const char*>(&bytes) + 4 * k, kChannels);
        pixel += kChannels;
      }
    }
  }
  return result;
}

Image ResampleColumns(const Pixels& in, const Taps& taps) {
  Image result(in.width, static_cast<int>(taps.outputs.size()));
  const size_t size = static_cast<size_t>(in.width) * kChannels;
  std::vector<int32_t> sums(size);
  uint8_t* out = result.pixels.data();
  for (const Taps::Range& range : taps.outputs) {
    std::fill(sums.begin(), sums.end(), kRounding);
    for (int k = 0; k < range.count; ++k) {
      const uint8_t* row = in.Row(range.first + k);
      const int32_t weight = range.weights[k];
#pragma omp simd
      for (size_t i = 0; i < size; ++i) sums[i] += weight * row[i];
    }
#pragma omp simd
    for (size_t i = 0; i < size; ++i) {
      out[i] = static_cast<uint8_t>(std::clamp(sums[i] >> kWeightBits, 0, 255));
    }
    out += size;
  }
  return result;
}

// The input at the centre of each wanted output. Positions are added up as Pillow does, which
// decides where a centre lies on a border.
std::vector<int> NearestInputs(const Axis& axis) {
  std::vector<int> inputs;
  double position = axis.begin + axis.scale() * 0.5;
  for (int64_t i = 0; i < axis.first + axis.count; ++i, position += axis.scale()) {
    if (i < axis.first) continue;
    inputs.push_back(std::min(static_cast<int>(position), axis.inputs - 1));
  }
  return inputs;
}

Image ResizeNearest(const Pixels& in, const Axis& x_axis, const Axis& y_axis) {
  const std::vector<int> columns = NearestInputs(x_axis), rows = NearestInputs(y_axis);
  Image result(x_axis.count, y_axis.count);
  uint8_t* out = result.pixels.data();
  for (int row : rows) {
    for (int column : columns) {
      std::memcpy(out, in.Row(row) + static_cast<size_t>(column) * kChannels, kChannels);
      out += kChannels;
    }
  }
  return result;
}

// An axis that stays as it is needs no pass, only the wanted part of it.
Image Resample(Pixels in, const Axis& x_axis, const Axis& y_axis, Filter filter) {
  if (filter == Filter::kNearest) return ResizeNearest(in, x_axis, y_axis);
  if (x_axis.unchanged()) {
    in = RegionOf(in, {static_cast<int>(x_axis.first), 0, x_axis.count, in.height});
  }
  if (y_axis.unchanged()) {
    in = RegionOf(in, {0, static_cast<int>(y_axis.first), in.width, y_axis.count});
    return x_axis.unchanged() ? Copy(in) : ResampleRows(in, TapsOf(x_axis, filter));
  }
  Taps rows = TapsOf(y_axis, filter);
  if (x_axis.unchanged()) return ResampleColumns(in, rows);
  // Rows that no output reads are not resampled.
  const int first = rows.outputs.front().first;
  const int end = rows.outputs.back().first + rows.outputs.back().count;
  for (Taps::Range& range : rows.outputs) range.first -= first;
  return ResampleColumns(
      All(ResampleRows(RegionOf(in, {0, first, in.width, end - first}), TapsOf(x_axis, filter))),
      rows);
}

Axis WholeAxis(int inputs, double begin, double end, int outputs) {
  return {inputs, static_cast<float>(begin), static_cast<float>(end), outputs, 0, outputs};
}

void CheckBox(const Image& image, const Box& box, int width, int height) {
  TOST_CHECK(width > 0 && height > 0 && 0 <= box.x0 && box.x0 < box.x1 && box.x1 <= image.width &&
             0 <= box.y0 && box.y0 < box.y1 && box.y1 <= image.height)
      << "cannot resize [" << box.x0 << ", " << box.x1 << ") x [" << box.y0 << ", " << box.y1
      << ") of a picture of " << image.width << "x" << image.height << " to " << width << "x"
      << height;
}

}  // namespace

Image Resize(const Image& image, int width, int height, Filter filter) {
  return Resize(image, width, height, filter,
                {0, 0, static_cast<double>(image.width), static_cast<double>(image.height)});
}

Image Resize(const Image& image, int width, int height, Filter filter, const Box& box) {
  CheckBox(image, box, width, height);
  return Resample(All(image), WholeAxis(image.width, box.x0, box.x1, width),
                  WholeAxis(image.height, box.y0, box.y1, height), filter);
}

Image CropAndResize(const Image& image, const Box& box, int width, int height, Filter filter) {
  CheckBox(image, box, width, height);
  const int x = static_cast<int>(box.x0), y = static_cast<int>(box.y0);
  const Region hull{x, y, static_cast<int>(std::ceil(box.x1)) - x,
                    static_cast<int>(std::ceil(box.y1)) - y};
  return Resample(RegionOf(image, hull), WholeAxis(hull.width, box.x0 - x, box.x1 - x, width),
                  WholeAxis(hull.height, box.y0 - y, box.y1 - y, height), filter);
}

Image ResizeShorterAndCrop(const Image& image, int shorter, int crop, Filter filter) {
  TOST_CHECK(crop > 0 && crop <= shorter && !image.pixels.empty())
      << "a crop of " << crop << " pixels of a picture of " << image.width << "x" << image.height
      << " resized to " << shorter;
  const int64_t side = std::min(image.width, image.height);
  auto axis = [&](int inputs) {
    const int64_t outputs = int64_t{shorter} * inputs / side;
    // Half a pixel goes to the even side, as Python rounds it.
    const int64_t margin = outputs - crop, half = margin / 2;
    const int64_t first = margin % 2 == 0 ? half : half + half % 2;
    return Axis{inputs, 0, static_cast<float>(inputs), outputs, first, crop};
  };
  return Resample(All(image), axis(image.width), axis(image.height), filter);
}

Image Crop(const Image& image, const Region& region) { return Copy(RegionOf(image, region)); }

Image FlipHorizontally(Image image) {
  for (int y = 0; y < image.height; ++y) {
    for (int left = 0, right = image.width - 1; left < right; ++left, --right) {
      std::swap_ranges(image.Pixel(left, y), image.Pixel(left, y) + kChannels,
                       image.Pixel(right, y));
    }
  }
  return image;
}

Image PadAndCrop(const Image& image, int padding, int x, int y) {
  TOST_CHECK(padding >= 0 && x >= 0 && x <= 2 * padding && y >= 0 && y <= 2 * padding)
      << "a crop at (" << x << ", " << y << ") with a border of " << padding;
  Image result(image.width, image.height);
  const int dx = x - padding, dy = y - padding;
  const int columns = image.width - std::abs(dx);
  if (columns <= 0) return result;
  for (int row = std::max(0, -dy); row < std::min(image.height, image.height - dy); ++row) {
    std::memcpy(result.Pixel(std::max(0, -dx), row), image.Pixel(std::max(0, dx), row + dy),
                static_cast<size_t>(columns) * kChannels);
  }
  return result;
}

}  // namespace tost::data
