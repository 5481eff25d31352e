#include <cmath>
#include <cstring>
#include <ostream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "autograd/base/errors.h"
#include "data/image_ops.h"

namespace tost::data {
namespace {

constexpr int kChannels = 3;
constexpr double kRadians = 3.14159265358979323846 / 180;

using Matrix = std::array<double, 6>;

Image Filled(int width, int height, const Color& color) {
  Image image(width, height);
  for (int x = 0; x < width; ++x) std::copy(color.begin(), color.end(), image.Pixel(x, 0));
  const size_t row = static_cast<size_t>(width) * kChannels;
  for (int y = 1; y < height; ++y) std::memcpy(image.Pixel(0, y), image.pixels.data(), row);
  return image;
}

// Without rotation and shear: positions are added up column by column and row by row.
void Scale(const Image& in, const Matrix& m, Image& out) {
  // Below zero is outside even where truncation would give 0.
  auto inputs = [](double position, double step, int outputs, int limit) {
    std::vector<int> found;
    for (int i = 0; i < outputs; ++i, position += step) {
      found.push_back(position >= 0 && position < limit ? static_cast<int>(position) : -1);
    }
    return found;
  };
  const std::vector<int> columns = inputs(m[2] + m[0] * 0.5, m[0], out.width, in.width);
  const std::vector<int> rows = inputs(m[5] + m[4] * 0.5, m[4], out.height, in.height);
  for (int y = 0; y < out.height; ++y) {
    const int row = rows[static_cast<size_t>(y)];
    for (int x = 0; x < out.width && row >= 0; ++x) {
      const int column = columns[static_cast<size_t>(x)];
      if (column >= 0) std::memcpy(out.Pixel(x, y), in.Pixel(column, row), kChannels);
    }
  }
}

void Nearest(const Image& in, const Matrix& m, Image& out) {
  auto fixed = [](double value) { return static_cast<int64_t>(std::floor(value * 65536 + 0.5)); };
  const int64_t xx = fixed(m[0]), xy = fixed(m[1]), yx = fixed(m[3]), yy = fixed(m[4]);
  const int64_t x_start = fixed(m[2] + m[0] * 0.5 + m[1] * 0.5);
  const int64_t y_start = fixed(m[5] + m[3] * 0.5 + m[4] * 0.5);
  for (int y = 0; y < out.height; ++y) {
    int64_t u = x_start + y * xy, v = y_start + y * yy;
    uint8_t* pixel = out.Pixel(0, y);
    for (int x = 0; x < out.width; ++x, u += xx, v += yx, pixel += kChannels) {
      const int64_t column = u >> 16, row = v >> 16;
      if (column < 0 || column >= in.width || row < 0 || row >= in.height) continue;
      std::memcpy(pixel, in.Pixel(static_cast<int>(column), static_cast<int>(row)), kChannels);
    }
  }
}

// A pixel in four lanes; the fourth holds a value that nothing reads.
using Words4 [[gnu::vector_size(16)]] = uint32_t;
using Ints4 [[gnu::vector_size(16)]] = int32_t;
using Doubles4 [[gnu::vector_size(32)]] = double;

// A picture, 32 bytes a pixel, since each is read up to sixteen times, read at columns and rows
// that are moved to the border where they lie beyond it.
struct Source {
  explicit Source(const Image& image)
      : width(image.width), height(image.height), pixels(image.pixels.size() / kChannels) {
    uint32_t word = 0;
    for (size_t i = 0; i < pixels.size(); ++i) {
      // The last pixel has no fourth byte to read.
      std::memcpy(&word, &image.pixels[i * kChannels], i + 1 < pixels.size() ? 4 : kChannels);
      const Words4 channels = (Words4{word, word, word, word} >> Words4{0, 8, 16, 24}) & 0xff;
      pixels[i] = __builtin_convertvector(reinterpret_cast<const Ints4&>(channels), Doubles4);
    }
  }

  int Column(int x) const { return std::clamp(x, 0, width - 1); }
  const Doubles4* Row(int y) const {
    const int inside = std::clamp(y, 0, height - 1);
    return pixels.data() + static_cast<size_t>(inside) * static_cast<size_t>(width);
  }

  int width, height;
  std::vector<Doubles4> pixels;
};

// Truncates values within 0 … 255. Vectors go by reference: how they are passed by value differs
// between instruction sets.
void Store(const Doubles4& value, uint8_t* pixel) {
  const Ints4 channels = __builtin_convertvector(value, Ints4);
  for (int c = 0; c < kChannels; ++c) pixel[c] = static_cast<uint8_t>(channels[c]);
}

struct Bilinear {
  // The value at column x + dx, row y + dy.
  static void At(const Source& in, int x, int y, double dx, double dy, uint8_t* out) {
    const int columns[2] = {in.Column(x), in.Column(x + 1)};
    Doubles4 rows[2];
    for (int j = 0; j < 2; ++j) {
      const Doubles4* row = in.Row(y + j);
      const Doubles4 left = row[columns[0]], right = row[columns[1]];
      rows[j] = left + (right - left) * dx;
    }
    Store(rows[0] + (rows[1] - rows[0]) * dy, out);
  }
};

struct Bicubic {
  // The cubic through p[1] (t = 0) and p[2] (t = 1) with a = -1.
  static void Cubic(const Doubles4 (&p)[4], double t, Doubles4& value) {
    const Doubles4 linear = -p[0] + p[2];
    const Doubles4 square = 2 * (p[0] - p[1]) + p[2] - p[3];
    const Doubles4 cube = -p[0] + p[1] - p[2] + p[3];
    value = p[1] + t * (linear + t * (square + t * cube));
  }

  static void At(const Source& in, int x, int y, double dx, double dy, uint8_t* out) {
    const int columns[4] = {in.Column(x - 1), in.Column(x), in.Column(x + 1), in.Column(x + 2)};
    Doubles4 rows[4], value;
    for (int j = 0; j < 4; ++j) {
      const Doubles4* row = in.Row(y - 1 + j);
      Doubles4 pixels[4];
      for (int i = 0; i < 4; ++i) pixels[i] = row[columns[i]];
      Cubic(pixels, dx, rows[j]);
    }
    Cubic(rows, dy, value);
    value = value < 0 ? 0 : value;
    value = value > 255 ? 255 : value;
    Store(value, out);
  }
};

template <class Interpolation>
void Interpolate(const Image& image, const Matrix& m, Image& out) {
  const Source in(image);
  for (int y = 0; y < out.height; ++y) {
    uint8_t* pixel = out.Pixel(0, y);
    for (int x = 0; x < out.width; ++x, pixel += kChannels) {
      const double u = m[0] * (x + 0.5) + m[1] * (y + 0.5) + m[2];
      const double v = m[3] * (x + 0.5) + m[4] * (y + 0.5) + m[5];
      if (!(u >= 0 && u < in.width && v >= 0 && v < in.height)) continue;
      const double column = std::floor(u - 0.5), row = std::floor(v - 0.5);
      Interpolation::At(in, static_cast<int>(column), static_cast<int>(row), u - 0.5 - column,
                        v - 0.5 - row, pixel);
    }
  }
}

// To 15 decimals, as Python rounds.
double Rounded15(double value) {
  double rounded = value;
  TOST_CHECK(absl::SimpleAtod(absl::StrFormat("%.15f", value), &rounded));
  return rounded;
}

}  // namespace

Image Affine(const Image& image, const Matrix& m, Filter filter, const Color& fill) {
  for (double entry : m) TOST_CHECK(std::abs(entry) < 0x1p24) << "Affine: an entry is " << entry;
  Image out = Filled(image.width, image.height, fill);
  if (filter == Filter::kBilinear) {
    Interpolate<Bilinear>(image, m, out);
  } else if (filter == Filter::kBicubic) {
    Interpolate<Bicubic>(image, m, out);
  } else {
    TOST_CHECK(filter == Filter::kNearest) << "Affine reads by nearest, bilinear or bicubic";
    m[1] == 0 && m[3] == 0 ? Scale(image, m, out) : Nearest(image, m, out);
  }
  return out;
}

Image Rotate(const Image& image, double degrees, Filter filter, const Color& fill) {
  double angle = std::fmod(degrees, 360);
  if (angle < 0) angle += 360;
  angle = -angle * kRadians;
  const double cosine = Rounded15(std::cos(angle)), sine = Rounded15(std::sin(angle));
  const double minus_sine = Rounded15(-std::sin(angle));
  const double x = image.width / 2.0, y = image.height / 2.0;
  return Affine(image,
                {cosine, sine, cosine * -x + sine * -y + x,  //
                 minus_sine, cosine, minus_sine * -x + cosine * -y + y},
                filter, fill);
}

}  // namespace tost::data
