// Operations on the pixels of a picture, bit for bit as Pillow does them.
//
// Two formulas serve several: the luma of a pixel
//   L = (19595 R + 38470 G + 7471 B + 2^15) >> 16,
// and enhancement by a factor f against a degenerate picture d, in float32, truncated:
//   out = clip(d + f (in - d), 0, 255).       f = 0: d; f = 1: unchanged; f > 1: beyond
#ifndef TOST_DATA_IMAGE_OPS_H_
#define TOST_DATA_IMAGE_OPS_H_

#include <array>
#include <cstdint>

#include "data/image.h"
#include "data/image_resize.h"

namespace tost::data {

using Color = std::array<uint8_t, 3>;

// Output pixel (x, y) reads the input at
//   u = m[0] (x + ½) + m[1] (y + ½) + m[2],  v = m[3] (x + ½) + m[4] (y + ½) + m[5];
// where that lies outside the picture, it is `fill`. `filter` is kNearest; kBilinear; or kBicubic,
// which here is the cubic with a = -1. Neighbours beyond the border repeat it. In double,
// truncated; kNearest is in 16.16 fixed point, as Pillow's, unless the matrix is diagonal. CHECKs
// that entries are finite and below 2^24.
Image Affine(const Image& image, const std::array<double, 6>& m, Filter filter, const Color& fill);
// Counter-clockwise about the centre.
Image Rotate(const Image& image, double degrees, Filter filter, const Color& fill);

Image AdjustBrightness(Image image, double factor);  // d = 0
Image AdjustColor(Image image, double factor);       // d = L of the pixel
Image AdjustContrast(Image image, double factor);    // d = floor(mean of L + ½)
// d is the mean of 3 × 3 pixels, the middle one counted five times; border pixels, and pictures
// of fewer than 3 rows or columns, stay as they are.
Image AdjustSharpness(Image image, double factor);

// Per channel, the range of values that occur is stretched to 0 … 255.
Image AutoContrast(Image image);
// Per channel, values are spread so that each occurs about equally often.
Image Equalize(Image image);
// Keeps the upper `bits` bits of each value, 0 … 8; with none, the picture is black.
Image Posterize(Image image, int bits);
// v < threshold ? v : 255 - v
Image Solarize(Image image, double threshold);
// v < 128 ? min(255, v + addition) : v,  for addition >= 0
Image SolarizeAdd(Image image, int addition);
Image Invert(Image image);

}  // namespace tost::data

#endif  // TOST_DATA_IMAGE_OPS_H_
