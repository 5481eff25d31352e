#include "data/exif.h"

#include <cstdint>
#include <utility>

#include "absl/strings/match.h"

namespace tost::data {
namespace {

// Numbers of `bytes` in either byte order; 0 outside, as if the file went on with zeros.
class Numbers {
 public:
  Numbers(absl::string_view bytes, bool big_endian) : bytes_(bytes), big_endian_(big_endian) {}

  uint32_t U16(size_t at) const { return Number(at, 2); }
  uint32_t U32(size_t at) const { return Number(at, 4); }

 private:
  uint32_t Number(size_t at, size_t count) const {
    if (at > bytes_.size() || bytes_.size() - at < count) return 0;
    uint32_t value = 0;
    for (size_t i = 0; i < count; ++i) {
      const size_t from = big_endian_ ? at + i : at + count - 1 - i;
      value = value << 8 | static_cast<unsigned char>(bytes_[from]);
    }
    return value;
  }

  absl::string_view bytes_;
  bool big_endian_;
};

// EXIF data are a TIFF file: byte order, 42, where the first directory is; a directory has a count
// and entries of 12 bytes: tag, type, number of values, the value.
ExifTurn TurnOfTiff(absl::string_view tiff) {
  constexpr uint32_t kMagic = 42, kOrientation = 0x0112, kShort = 3, kLong = 4;
  constexpr size_t kEntryBytes = 12;
  const bool big_endian = absl::StartsWith(tiff, "MM");
  if (!big_endian && !absl::StartsWith(tiff, "II")) return {};
  const Numbers numbers(tiff, big_endian);
  if (numbers.U16(2) != kMagic) return {};
  const size_t directory = numbers.U32(4);
  const size_t entries = numbers.U16(directory);
  for (size_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + i * kEntryBytes;
    if (numbers.U16(entry) != kOrientation) continue;
    const uint32_t type = numbers.U16(entry + 2);
    const uint32_t value = type == kShort  ? numbers.U16(entry + 8)
                           : type == kLong ? numbers.U32(entry + 8)
                                           : 0;
    return value <= 8 ? TurnOfOrientation(static_cast<int>(value)) : ExifTurn{};
  }
  return {};
}

struct Span {
  double begin = 0;
  double end = 0;
};

Span Mirrored(Span span, int extent) { return {extent - span.end, extent - span.begin}; }

}  // namespace

ExifTurn TurnOfOrientation(int orientation) {
  switch (orientation) {
    case 2:
      return {.mirror_columns = true};
    case 3:
      return {.mirror_columns = true, .mirror_rows = true};
    case 4:
      return {.mirror_rows = true};
    case 5:
      return {.transpose = true};
    case 6:  // a quarter turn clockwise
      return {.mirror_rows = true, .transpose = true};
    case 7:
      return {.mirror_columns = true, .mirror_rows = true, .transpose = true};
    case 8:  // a quarter turn counter-clockwise
      return {.mirror_columns = true, .transpose = true};
    default:
      return {};
  }
}

ExifTurn JpegTurn(absl::string_view bytes) {
  constexpr uint32_t kMarker = 0xFF, kStartOfScan = 0xDA, kEndOfImage = 0xD9, kApp1 = 0xE1;
  constexpr absl::string_view kExif("Exif\0\0", 6);
  const Numbers numbers(bytes, /*big_endian=*/true);
  for (size_t at = 2; at + 4 <= bytes.size();) {
    const uint32_t marker = numbers.U16(at);
    if (marker == 0xFFFF) {  // a marker may be preceded by fill bytes
      ++at;
      continue;
    }
    const uint32_t kind = marker & 0xFF;
    if (marker >> 8 != kMarker || kind == kStartOfScan || kind == kEndOfImage) break;
    const size_t length = numbers.U16(at + 2);  // counts its own two bytes
    if (length < 2) break;
    const absl::string_view segment = bytes.substr(at + 4, length - 2);
    if (kind == kApp1 && absl::StartsWith(segment, kExif)) {
      return TurnOfTiff(segment.substr(kExif.size()));
    }
    at += 2 + length;
  }
  return {};
}

ExifTurn PngTurn(absl::string_view bytes) {
  constexpr size_t kSignature = 8, kChunkHead = 8, kCheckSum = 4;
  const Numbers numbers(bytes, /*big_endian=*/true);
  for (size_t at = kSignature; at + kChunkHead <= bytes.size();) {
    const size_t length = numbers.U32(at);
    if (bytes.substr(at + 4, 4) == "eXIf") return TurnOfTiff(bytes.substr(at + kChunkHead, length));
    at += kChunkHead + length + kCheckSum;
  }
  return {};
}

Image Turned(Image stored, ExifTurn turn) {
  if (turn == ExifTurn{}) return stored;
  Image upright(turn.transpose ? stored.height : stored.width,
                turn.transpose ? stored.width : stored.height);
  uint8_t* to = upright.pixels.data();
  for (int y = 0; y < upright.height; ++y) {
    for (int x = 0; x < upright.width; ++x, to += 3) {
      const int column = turn.transpose ? y : x;
      const int row = turn.transpose ? x : y;
      const uint8_t* from = stored.Pixel(turn.mirror_columns ? stored.width - 1 - column : column,
                                         turn.mirror_rows ? stored.height - 1 - row : row);
      to[0] = from[0];
      to[1] = from[1];
      to[2] = from[2];
    }
  }
  return upright;
}

DecodedRegion Turned(DecodedRegion stored, ExifTurn turn) {
  Span x{stored.x0, stored.x1};
  Span y{stored.y0, stored.y1};
  if (turn.mirror_columns) x = Mirrored(x, stored.image.width);
  if (turn.mirror_rows) y = Mirrored(y, stored.image.height);
  if (turn.transpose) std::swap(x, y);
  return {Turned(std::move(stored.image), turn), x.begin, y.begin, x.end, y.end};
}

Region StoredRegion(const Region& upright, ExifTurn turn, int width, int height) {
  Region stored = upright;
  if (turn.transpose) stored = {upright.y, upright.x, upright.height, upright.width};
  if (turn.mirror_columns) stored.x = width - stored.x - stored.width;
  if (turn.mirror_rows) stored.y = height - stored.y - stored.height;
  return stored;
}

}  // namespace tost::data
