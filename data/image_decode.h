// From the bytes of an image file to pixels. The bytes decide on the format, never the name. JPEG,
// PNG and the first frame of GIF are read; docs/pictures.md has the rules. Any number of threads
// may decode at the same time.
#ifndef TOST_DATA_IMAGE_DECODE_H_
#define TOST_DATA_IMAGE_DECODE_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/image.h"
#include "data/image_format.h"

namespace tost::data {

enum class Orientation {
  kUpright,  // as the file's EXIF orientation says, which is how viewers show the picture
  kStored    // the rows of the file, which is what torchvision and timm train on
};

// In all of these `name` is what errors call the file. Errors, each of one line: a file that is
// empty, no picture, of another format, cut, damaged, or of more than kMaxImagePixels pixels.

// Format and extents, of the upright picture if that is asked for, without decoding it.
absl::StatusOr<ImageHeader> ReadImageHeader(absl::string_view bytes, absl::string_view name,
                                            Orientation orientation);

absl::StatusOr<Image> DecodeImage(absl::string_view bytes, absl::string_view name,
                                  Orientation orientation);

// For training: pixels that cover `region`, a part of the picture of DecodeImage (which must lie in
// it), on their way to be resized to about target_width x target_height. JPEG pictures are decoded
// in part, and at 1/2, 1/4 or 1/8 of their size where the region then still has as many rows and
// columns as the target; otherwise the result is exactly the region's pixels.
absl::StatusOr<DecodedRegion> DecodeRegion(absl::string_view bytes, absl::string_view name,
                                           Orientation orientation, const Region& region,
                                           int target_width, int target_height);

}  // namespace tost::data

#endif  // TOST_DATA_IMAGE_DECODE_H_
