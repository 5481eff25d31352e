#include "data/image_write.h"

#include <png.h>

#include "autograd/base/errors.h"
#include "data/atomic_file.h"

namespace tost::data {

std::string EncodePng(const Image& image) {
  TOST_CHECK(image.width > 0 && image.height > 0) << image.width << " x " << image.height;
  png_image png{.version = PNG_IMAGE_VERSION,
                .width = static_cast<png_uint_32>(image.width),
                .height = static_cast<png_uint_32>(image.height),
                .format = PNG_FORMAT_RGB};
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(png);
  std::string bytes(size, '\0');
  const int written =
      png_image_write_to_memory(&png, bytes.data(), &size, /*convert_to_8_bit=*/0,
                                image.pixels.data(), /*row_stride=*/0, /*colormap=*/nullptr);
  TOST_CHECK(written != 0) << png.message;
  bytes.resize(size);
  return bytes;
}

absl::Status WritePng(const std::string& path, const Image& image) {
  return WriteFileAtomically(path, EncodePng(image));
}

}  // namespace tost::data
