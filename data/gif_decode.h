// GIF pictures (giflib): the first frame.
#ifndef TOST_DATA_GIF_DECODE_H_
#define TOST_DATA_GIF_DECODE_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/image.h"
#include "data/image_format.h"

namespace tost::data {

// The picture has the extents of the file's screen, or more where the frame reaches beyond it.
// `name` is the file's name in errors.
absl::StatusOr<ImageHeader> ReadGifHeader(absl::string_view bytes, absl::string_view name);

// The first frame on the screen's background colour (black if the file has no colours for its
// screen). A transparent pixel shows the colour of its index; an index without a colour is black.
// What follows the first frame is not looked at.
absl::StatusOr<Image> DecodeGif(absl::string_view bytes, absl::string_view name);

}  // namespace tost::data

#endif  // TOST_DATA_GIF_DECODE_H_
