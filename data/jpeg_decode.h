// JPEG pictures (libjpeg-turbo): baseline, progressive, arithmetic; gray, YCbCr, RGB, CMYK, YCCK.
#ifndef TOST_DATA_JPEG_DECODE_H_
#define TOST_DATA_JPEG_DECODE_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/image.h"
#include "data/image_format.h"

namespace tost::data {

// All as stored, without EXIF orientation. `name` is the file's name in errors.
absl::StatusOr<ImageHeader> ReadJpegHeader(absl::string_view bytes, absl::string_view name);

// Slow-integer DCT and smooth ("fancy") chroma upsampling: the library's defaults, so the bytes are
// those of Pillow, OpenCV and djpeg. Four components become RGB by Pillow's formula. Data that end
// early or are damaged are an error; stray bytes before a marker or after the end are not.
absl::StatusOr<Image> DecodeJpeg(absl::string_view bytes, absl::string_view name);

// The part of the picture that covers `region`, which must lie in it, decoded at the smallest of
// the scales 1/8, 1/4, 1/2, 1 at which the region is no smaller than the target. At scale 1 the
// pixels are those of DecodeJpeg. Rows below the region are not decoded where that can be avoided,
// so damage there is not seen; a missing end is.
absl::StatusOr<DecodedRegion> DecodeJpegRegion(absl::string_view bytes, absl::string_view name,
                                               const Region& region, int target_width,
                                               int target_height);

}  // namespace tost::data

#endif  // TOST_DATA_JPEG_DECODE_H_
