// Resizing, cropping and mirroring, bit for bit as Pillow does them.
//
// A filter's support grows with the reduction, so that reducing averages (antialiasing). With
// scale = box extent / outputs, s = max(scale, 1) and the filter's radius R, output i is
//   sum_k q[k] in[lo + k],  q[k] ~ kernel((lo + k + 0.5 - centre) / s) in 22-bit fixed point,
//   centre = box begin + (i + 0.5) scale,  |lo + k + 0.5 - centre| <= R s,
// first along rows, then along columns, each time rounded and clipped to a byte.
#ifndef TOST_DATA_IMAGE_RESIZE_H_
#define TOST_DATA_IMAGE_RESIZE_H_

#include "data/image.h"

namespace tost::data {

enum class Filter {
  kNearest,   // the pixel at the centre, without averaging
  kBox,       // R = 0.5
  kBilinear,  // R = 1: 1 - |x|
  kBicubic,   // R = 2, a = -0.5
  kLanczos,   // R = 3
};

// A rectangle between pixel borders, in pixels: columns [x0, x1), rows [y0, y1).
struct Box {
  double x0 = 0;
  double y0 = 0;
  double x1 = 0;
  double y1 = 0;
};

// CHECKs that the picture, the result and the box are not empty and that the box lies inside.
Image Resize(const Image& image, int width, int height, Filter filter);
// Of a box, whose borders are rounded to float32. Pixels outside the box, up to the filter's
// support, have their share in those at its border.
Image Resize(const Image& image, int width, int height, Filter filter, const Box& box);
// The same, but no pixel outside the box, rounded outwards to whole pixels, has a share: with whole
// borders that is a crop resized.
Image CropAndResize(const Image& image, const Box& box, int width, int height, Filter filter);

// torchvision's Resize(shorter) and CenterCrop(crop): the shorter side becomes `shorter`, the
// longer one floor(shorter · long / short), and the middle crop × crop pixels remain. Only these
// are computed, so the picture may be of any aspect. CHECKs crop <= shorter.
Image ResizeShorterAndCrop(const Image& image, int shorter, int crop, Filter filter);

// CHECKs that the region lies inside and is not empty.
Image Crop(const Image& image, const Region& region);
Image FlipHorizontally(Image image);
// The width × height pixels of the picture from (x - padding, y - padding) on: what a crop at
// (x, y) of the picture with a black border of `padding` pixels shows.
Image PadAndCrop(const Image& image, int padding, int x, int y);

}  // namespace tost::data

#endif  // TOST_DATA_IMAGE_RESIZE_H_
