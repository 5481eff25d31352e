// How a camera was held: the EXIF orientation of a file, and pictures turned by it.
#ifndef TOST_DATA_EXIF_H_
#define TOST_DATA_EXIF_H_

#include "absl/strings/string_view.h"
#include "data/image.h"
#include "data/image_format.h"

namespace tost::data {

// From a stored picture to the upright one: rows or columns are mirrored, then the picture is
// transposed.
struct ExifTurn {
  bool mirror_columns = false;  // x becomes width - 1 - x
  bool mirror_rows = false;     // y becomes height - 1 - y
  bool transpose = false;       // then x and y change places
  friend bool operator==(const ExifTurn&, const ExifTurn&) = default;
};

// Orientations 1 … 8 (EXIF 2.3, tag 0x0112). Any other number is no turn.
ExifTurn TurnOfOrientation(int orientation);

// The turn that a file asks for: in a JPEG file's first APP1 segment "Exif", in a PNG file's eXIf
// chunk. None when there is none or it makes no sense.
ExifTurn JpegTurn(absl::string_view bytes);
ExifTurn PngTurn(absl::string_view bytes);

Image Turned(Image stored, ExifTurn turn);
// The same with the box in it.
DecodedRegion Turned(DecodedRegion stored, ExifTurn turn);
// The part of a stored picture of `width` x `height` that becomes `upright`.
Region StoredRegion(const Region& upright, ExifTurn turn, int width, int height);

}  // namespace tost::data

#endif  // TOST_DATA_EXIF_H_
