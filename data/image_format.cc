#include "data/image_format.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "autograd/base/errors.h"

namespace tost::data {

DecodedRegion Cut(Image whole, const Region& region) {
  DecodedRegion cut{.x1 = static_cast<double>(region.width),
                    .y1 = static_cast<double>(region.height)};
  if (region == Region{0, 0, whole.width, whole.height}) {
    cut.image = std::move(whole);
    return cut;
  }
  cut.image = Image(region.width, region.height);
  for (int y = 0; y < region.height; ++y) {
    std::copy_n(whole.Pixel(region.x, region.y + y), static_cast<size_t>(region.width) * 3,
                cut.image.Pixel(0, y));
  }
  return cut;
}

absl::Status CheckImageSize(absl::string_view name, int64_t width, int64_t height) {
  if (width < 1 || height < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": a picture of ", width, " x ", height, " pixels has no pixel"));
  }
  // Formats give 32-bit extents at most, so the product cannot overflow.
  if (width * height > kMaxImagePixels) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": a picture of ", width, " x ", height,
                                                   " pixels is over the limit of ", kMaxImagePixels,
                                                   " pixels; make it smaller"));
  }
  return absl::OkStatus();
}

absl::Status PrematureEnd(absl::string_view name, const char* format, size_t bytes) {
  return absl::DataLossError(absl::StrCat(name, ": premature end of ", format, " data after ",
                                          bytes, " bytes; copy or download the file again"));
}

absl::Status DamagedImage(absl::string_view name, const char* format, absl::string_view why,
                          size_t offset) {
  return absl::DataLossError(absl::StrCat(name, ": damaged ", format, " data (", why,
                                          ") near byte ", offset,
                                          "; copy or download the file again"));
}

}  // namespace tost::data
