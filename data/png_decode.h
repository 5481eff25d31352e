// PNG pictures (libpng), every kind of them.
#ifndef TOST_DATA_PNG_DECODE_H_
#define TOST_DATA_PNG_DECODE_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/image.h"
#include "data/image_format.h"

namespace tost::data {

// As stored, without EXIF orientation. `name` is the file's name in errors.
absl::StatusOr<ImageHeader> ReadPngHeader(absl::string_view bytes, absl::string_view name);

// Transparency of any kind is left out, so the colour under it shows; 16-bit samples keep their
// high byte, fewer bits are scaled to 0 … 255; gamma, colour profiles and everything else has no
// effect. A wrong check sum and a missing end are errors.
absl::StatusOr<Image> DecodePng(absl::string_view bytes, absl::string_view name);

}  // namespace tost::data

#endif  // TOST_DATA_PNG_DECODE_H_
