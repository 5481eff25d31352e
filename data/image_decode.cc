#include "data/image_decode.h"

#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "autograd/base/errors.h"
#include "data/exif.h"
#include "data/gif_decode.h"
#include "data/jpeg_decode.h"
#include "data/png_decode.h"

namespace tost::data {
namespace {

enum class Format { kJpeg, kPng, kGif };

// What other files begin with, from byte `offset` on, and what one calls them.
struct Magic {
  size_t offset;
  absl::string_view bytes;
  absl::string_view what;
};
constexpr Magic kNotRead[] = {{0, "BM", "a BMP picture"},
                              {8, "WEBP", "a WebP picture"},
                              {0, absl::string_view("II*\0", 4), "a TIFF picture"},
                              {0, absl::string_view("MM\0*", 4), "a TIFF picture"},
                              {4, "ftypavi", "an AVIF picture"},
                              {4, "ftyphei", "a HEIC picture"},
                              {4, "ftypmif", "a HEIC picture"},
                              {4, "jP  ", "a JPEG 2000 picture"},
                              {0, "\xFF\x4F\xFF\x51", "a JPEG 2000 picture"},
                              {0, "\xFF\x0A", "a JPEG XL picture"},
                              {4, "JXL ", "a JPEG XL picture"},
                              {0, "8BPS", "a Photoshop file"},
                              {0, absl::string_view("\0\0\1\0", 4), "an icon"},
                              {0, "P5\n", "a PGM picture"},
                              {0, "P6\n", "a PPM picture"},
                              {0, "<svg", "an SVG drawing"},
                              {0, "<?xml", "an XML file"},
                              {0, "<!DOCTYPE", "a web page"},
                              {0, "<!doctype", "a web page"},
                              {0, "<html", "a web page"}};

absl::StatusOr<Format> FormatOf(absl::string_view bytes, absl::string_view name) {
  if (absl::StartsWith(bytes, "\xFF\xD8\xFF")) return Format::kJpeg;
  if (absl::StartsWith(bytes, "\x89PNG")) return Format::kPng;
  if (absl::StartsWith(bytes, "GIF8")) return Format::kGif;
  if (bytes.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": no picture: the file is empty; copy or download it again"));
  }
  for (const Magic& magic : kNotRead) {
    if (bytes.size() < magic.offset) continue;
    if (!absl::StartsWith(bytes.substr(magic.offset), magic.bytes)) continue;
    return absl::UnimplementedError(absl::StrCat(
        name, ": ", magic.what, "; JPEG, PNG and GIF are read: convert it to one of these"));
  }
  constexpr size_t kShown = 4;
  return absl::InvalidArgumentError(absl::StrCat(
      name, ": no picture that is known: it begins with 0x",
      absl::BytesToHexString(bytes.substr(0, kShown)), "; JPEG, PNG and GIF are read"));
}

ExifTurn TurnOf(Format format, absl::string_view bytes, Orientation orientation) {
  if (orientation == Orientation::kStored) return {};
  if (format == Format::kJpeg) return JpegTurn(bytes);
  if (format == Format::kPng) return PngTurn(bytes);
  return {};
}

absl::StatusOr<ImageHeader> StoredHeader(Format format, absl::string_view bytes,
                                         absl::string_view name) {
  switch (format) {
    case Format::kJpeg:
      return ReadJpegHeader(bytes, name);
    case Format::kPng:
      return ReadPngHeader(bytes, name);
    case Format::kGif:
      return ReadGifHeader(bytes, name);
  }
  return absl::InternalError("no such format");
}

absl::StatusOr<Image> DecodeStored(Format format, absl::string_view bytes, absl::string_view name) {
  switch (format) {
    case Format::kJpeg:
      return DecodeJpeg(bytes, name);
    case Format::kPng:
      return DecodePng(bytes, name);
    case Format::kGif:
      return DecodeGif(bytes, name);
  }
  return absl::InternalError("no such format");
}

void CheckRegion(const Region& region, int width, int height) {
  TOST_CHECK(region.x >= 0 && region.y >= 0 && region.width > 0 && region.height > 0 &&
             region.width <= width - region.x && region.height <= height - region.y)
      << "columns " << region.x << " + " << region.width << " and rows " << region.y << " + "
      << region.height << " of a picture of " << width << " x " << height;
}

}  // namespace

absl::StatusOr<ImageHeader> ReadImageHeader(absl::string_view bytes, absl::string_view name,
                                            Orientation orientation) {
  TOST_ASSIGN_OR_RETURN(const Format format, FormatOf(bytes, name));
  TOST_ASSIGN_OR_RETURN(ImageHeader header, StoredHeader(format, bytes, name));
  if (TurnOf(format, bytes, orientation).transpose) std::swap(header.width, header.height);
  return header;
}

absl::StatusOr<Image> DecodeImage(absl::string_view bytes, absl::string_view name,
                                  Orientation orientation) {
  TOST_ASSIGN_OR_RETURN(const Format format, FormatOf(bytes, name));
  TOST_ASSIGN_OR_RETURN(Image stored, DecodeStored(format, bytes, name));
  return Turned(std::move(stored), TurnOf(format, bytes, orientation));
}

absl::StatusOr<DecodedRegion> DecodeRegion(absl::string_view bytes, absl::string_view name,
                                           Orientation orientation, const Region& region,
                                           int target_width, int target_height) {
  TOST_CHECK(target_width > 0 && target_height > 0) << target_width << " x " << target_height;
  TOST_ASSIGN_OR_RETURN(const Format format, FormatOf(bytes, name));
  if (format != Format::kJpeg) {
    TOST_ASSIGN_OR_RETURN(Image image, DecodeImage(bytes, name, orientation));
    CheckRegion(region, image.width, image.height);
    return Cut(std::move(image), region);
  }
  TOST_ASSIGN_OR_RETURN(const ImageHeader header, ReadJpegHeader(bytes, name));
  const ExifTurn turn = TurnOf(format, bytes, orientation);
  const Region stored = StoredRegion(region, turn, header.width, header.height);
  CheckRegion(stored, header.width, header.height);
  if (turn.transpose) std::swap(target_width, target_height);
  TOST_ASSIGN_OR_RETURN(DecodedRegion decoded,
                        DecodeJpegRegion(bytes, name, stored, target_width, target_height));
  return Turned(std::move(decoded), turn);
}

}  // namespace tost::data
