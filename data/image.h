// A decoded picture.
#ifndef TOST_DATA_IMAGE_H_
#define TOST_DATA_IMAGE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace tost::data {

// `height` rows of `width` pixels, each three bytes: red, green, blue (sRGB as stored, 0 … 255).
struct Image {
  Image() = default;
  Image(int width_in, int height_in)
      : width(width_in), height(height_in), pixels(static_cast<size_t>(width_in) * height_in * 3) {}

  const uint8_t* Pixel(int x, int y) const { return pixels.data() + Offset(x, y); }
  uint8_t* Pixel(int x, int y) { return pixels.data() + Offset(x, y); }
  friend bool operator==(const Image&, const Image&) = default;

  int width = 0;
  int height = 0;
  std::vector<uint8_t> pixels;

 private:
  size_t Offset(int x, int y) const {
    return (static_cast<size_t>(y) * static_cast<size_t>(width) + static_cast<size_t>(x)) * 3;
  }
};

// A rectangle of pixels: columns [x, x + width) and rows [y, y + height).
struct Region {
  int x = 0;
  int y = 0;
  int width = 0;
  int height = 0;
  friend bool operator==(const Region&, const Region&) = default;
};

// A picture as a data set holds it: pixels already, or the bytes of an image file.
using StoredImage = std::variant<Image, std::string>;

}  // namespace tost::data

#endif  // TOST_DATA_IMAGE_H_
