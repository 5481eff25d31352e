// What the decoders of single formats share: their results, the limit of size, their errors.
#ifndef TOST_DATA_IMAGE_FORMAT_H_
#define TOST_DATA_IMAGE_FORMAT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "data/image.h"

namespace tost::data {

struct ImageHeader {
  const char* format = "";  // "JPEG", "PNG", "GIF"
  int width = 0;
  int height = 0;
};

// Pixels that cover a region of a picture, perhaps at a smaller scale. The region is the box
// [x0, x1) x [y0, y1) of `image`, in its pixels; it may begin and end within a pixel.
struct DecodedRegion {
  Image image;
  double x0 = 0;
  double y0 = 0;
  double x1 = 0;
  double y1 = 0;
};

// `region` of a picture that was decoded whole.
DecodedRegion Cut(Image whole, const Region& region);

// Pictures of more pixels are refused: where Pillow stops for fear of a decompression bomb.
inline constexpr int64_t kMaxImagePixels = 178'956'970;

// An error unless the picture has a pixel and not too many. For use before anything is allocated.
absl::Status CheckImageSize(absl::string_view name, int64_t width, int64_t height);

// "a.jpg: premature end of JPEG data after 1200 bytes; …".
absl::Status PrematureEnd(absl::string_view name, const char* format, size_t bytes);
// "a.jpg: damaged JPEG data (bad Huffman code) near byte 1200; …".
absl::Status DamagedImage(absl::string_view name, const char* format, absl::string_view why,
                          size_t offset);

}  // namespace tost::data

#endif  // TOST_DATA_IMAGE_FORMAT_H_
