// Pictures to PNG.
#ifndef TOST_DATA_IMAGE_WRITE_H_
#define TOST_DATA_IMAGE_WRITE_H_

#include <string>

#include "absl/status/status.h"
#include "data/image.h"

namespace tost::data {

// The bytes of an 8-bit RGB PNG file, marked as sRGB: no date and nothing else that changes. The
// picture has a pixel.
std::string EncodePng(const Image& image);

// The file appears at once and whole.
absl::Status WritePng(const std::string& path, const Image& image);

}  // namespace tost::data

#endif  // TOST_DATA_IMAGE_WRITE_H_
