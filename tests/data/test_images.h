// Pictures for tests, and image files of kinds that the product reads but never writes.
#ifndef TOST_TESTS_DATA_TEST_IMAGES_H_
#define TOST_TESTS_DATA_TEST_IMAGES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "data/image.h"

namespace tost {

// Waves in three colours, with sharp coloured edges that show what chroma upsampling does.
data::Image DrawnImage(int width, int height);

enum class JpegKind {
  kColour,
  kGray,  // the red values
  kCmyk   // as Adobe stores it: 255 - ink, here no black
};
struct JpegSettings {
  int quality = 90;
  int chroma = 1;      // blue-yellow samples across and down a unit of the picture …
  int horizontal = 2;  // … that has so many luma samples, and one red-green sample
  int vertical = 2;
  bool progressive = false;
  int restart_rows = 0;
  JpegKind kind = JpegKind::kColour;
};
std::string EncodeJpeg(const data::Image& image, const JpegSettings& settings = {});

// A progressive gray JPEG whose first scan comes `times` times.
std::string JpegWithRepeatedScan(const data::Image& image, int times);

// An RGBA PNG; four values a pixel.
std::string EncodeRgbaPng(int width, int height, const std::vector<uint8_t>& rgba);

// The same JPEG or PNG file with EXIF data that hold this orientation.
std::string WithJpegOrientation(const std::string& jpeg, int orientation, bool big_endian);
std::string WithPngOrientation(const std::string& png, int orientation);

// The JPEG with other extents in its frame header.
std::string WithJpegExtents(std::string jpeg, int width, int height);

// All golden image files: name and bytes.
struct NamedBytes {
  std::string name;
  std::string bytes;
};
std::vector<NamedBytes> GoldenImageFiles();
std::string GoldenImageFile(absl::string_view name);

}  // namespace tost

#endif  // TOST_TESTS_DATA_TEST_IMAGES_H_
