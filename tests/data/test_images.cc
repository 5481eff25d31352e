#include "tests/data/test_images.h"

#include <png.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "data/libjpeg.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"

namespace tost {
namespace {

using data::Image;

std::string BigEndian(uint32_t value, int bytes) {
  std::string text;
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
    text.push_back(static_cast<char>(value >> shift & 0xFF));
  }
  return text;
}

// One directory with one entry: tag 0x0112, type SHORT, one value.
std::string OrientationTiff(int orientation, bool big_endian) {
  const auto number = [&](int value, int bytes) {
    std::string text = BigEndian(static_cast<uint32_t>(value), bytes);
    if (!big_endian) std::reverse(text.begin(), text.end());
    return text;
  };
  return absl::StrCat(big_endian ? "MM" : "II", number(42, 2), number(8, 4), number(1, 2),
                      number(0x0112, 2), number(3, 2), number(1, 4), number(orientation, 2),
                      number(0, 2), number(0, 4));
}

void SetColours(const JpegSettings& settings, jpeg_compress_struct& info) {
  const bool gray = settings.kind == JpegKind::kGray, cmyk = settings.kind == JpegKind::kCmyk;
  info.input_components = gray ? 1 : cmyk ? 4 : 3;
  info.in_color_space = gray ? JCS_GRAYSCALE : cmyk ? JCS_CMYK : JCS_RGB;
  jpeg_set_defaults(&info);
  if (settings.kind == JpegKind::kColour) {
    info.comp_info[0].h_samp_factor = settings.horizontal;
    info.comp_info[0].v_samp_factor = settings.vertical;
    info.comp_info[1].h_samp_factor = settings.chroma;
    info.comp_info[1].v_samp_factor = settings.chroma;
  }
}

std::vector<uint8_t> Samples(const Image& image, JpegKind kind) {
  if (kind == JpegKind::kColour) return image.pixels;
  std::vector<uint8_t> samples;
  for (size_t i = 0; i < image.pixels.size(); i += 3) {
    const uint8_t* rgb = &image.pixels[i];
    if (kind == JpegKind::kGray) {
      samples.push_back(rgb[0]);
    } else {
      samples.insert(samples.end(), {rgb[0], rgb[1], rgb[2], 255});
    }
  }
  return samples;
}

// `two_scans`: one for the means of the blocks of a gray picture, and one for the rest.
std::string Compress(const Image& image, const JpegSettings& settings, bool two_scans) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = static_cast<JDIMENSION>(image.width);
  info.image_height = static_cast<JDIMENSION>(image.height);
  SetColours(settings, info);
  jpeg_set_quality(&info, settings.quality, TRUE);
  info.restart_in_rows = settings.restart_rows;
  constexpr jpeg_scan_info kTwoScans[] = {{1, {0}, 0, 0, 0, 0}, {1, {0}, 1, 63, 0, 0}};
  if (settings.progressive) jpeg_simple_progression(&info);
  if (two_scans) {
    info.scan_info = kTwoScans;
    info.num_scans = 2;
  }
  std::vector<uint8_t> samples = Samples(image, settings.kind);
  const size_t row = samples.size() / static_cast<size_t>(image.height);
  jpeg_start_compress(&info, TRUE);
  for (size_t y = 0; y < static_cast<size_t>(image.height); ++y) {
    JSAMPROW from = samples.data() + y * row;
    jpeg_write_scanlines(&info, &from, 1);
  }
  jpeg_finish_compress(&info);
  std::string jpeg(reinterpret_cast<const char*>(bytes), size);
  jpeg_destroy_compress(&info);
  std::free(bytes);
  return jpeg;
}

std::string SourceFolder() {
  const char* folder = std::getenv("TOST_GOLDEN_DIR");
  return absl::StrCat(
      folder != nullptr && *folder != '\0' ? folder : TOST_SOURCE_DIR "/tests/golden",
      "/images/source/");
}

}  // namespace

Image DrawnImage(int width, int height) {
  Image image(width, height);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const bool inside = (x / 7 + y / 5) % 3 == 0;
      uint8_t* rgb = image.Pixel(x, y);
      rgb[0] = static_cast<uint8_t>(128 + 100 * std::sin(x * 0.11 + y * 0.03));
      rgb[1] = static_cast<uint8_t>(inside ? 230 : 128 + 90 * std::cos(y * 0.07));
      rgb[2] = static_cast<uint8_t>(inside ? 10 : (x * 5 + y * 3) % 256);
    }
  }
  return image;
}

std::string EncodeJpeg(const Image& image, const JpegSettings& settings) {
  return Compress(image, settings, /*two_scans=*/false);
}

std::string JpegWithRepeatedScan(const Image& image, int times) {
  const std::string jpeg = Compress(image, {.kind = JpegKind::kGray}, /*two_scans=*/true);
  const size_t first = jpeg.find("\xFF\xDA");
  size_t next = first + 2;  // the next marker: 0xFF and no zero
  while (jpeg[next] != '\xFF' || jpeg[next + 1] == '\0') ++next;
  std::string repeated = jpeg.substr(0, first);
  for (int i = 0; i < times; ++i) repeated += jpeg.substr(first, next - first);
  return repeated + jpeg.substr(next);
}

std::string EncodeRgbaPng(int width, int height, const std::vector<uint8_t>& rgba) {
  png_image png{.version = PNG_IMAGE_VERSION,
                .width = static_cast<png_uint_32>(width),
                .height = static_cast<png_uint_32>(height),
                .format = PNG_FORMAT_RGBA};
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(png);
  std::string bytes(size, '\0');
  EXPECT_NE(png_image_write_to_memory(&png, bytes.data(), &size, 0, rgba.data(), 0, nullptr), 0);
  bytes.resize(size);
  return bytes;
}

std::string WithJpegOrientation(const std::string& jpeg, int orientation, bool big_endian) {
  const std::string exif =
      absl::StrCat(absl::string_view("Exif\0\0", 6), OrientationTiff(orientation, big_endian));
  return absl::StrCat(jpeg.substr(0, 2), "\xFF\xE1",
                      BigEndian(static_cast<uint32_t>(exif.size() + 2), 2), exif, jpeg.substr(2));
}

std::string WithPngOrientation(const std::string& png, int orientation) {
  constexpr size_t kHeaderEnd = 33;  // the signature and the chunk IHDR
  const std::string tiff = OrientationTiff(orientation, /*big_endian=*/true);
  const std::string chunk = absl::StrCat("eXIf", tiff);
  const auto sum =
      crc32(0, reinterpret_cast<const Bytef*>(chunk.data()), static_cast<uInt>(chunk.size()));
  return absl::StrCat(png.substr(0, kHeaderEnd), BigEndian(static_cast<uint32_t>(tiff.size()), 4),
                      chunk, BigEndian(static_cast<uint32_t>(sum), 4), png.substr(kHeaderEnd));
}

std::string WithJpegExtents(std::string jpeg, int width, int height) {
  // Marker, length, precision, height, width.
  size_t frame = jpeg.find("\xFF\xC0");
  if (frame == std::string::npos) frame = jpeg.find("\xFF\xC2");
  EXPECT_NE(frame, std::string::npos);
  return jpeg.replace(
      frame + 5, 4,
      BigEndian(static_cast<uint32_t>(height), 2) + BigEndian(static_cast<uint32_t>(width), 2));
}

std::vector<NamedBytes> GoldenImageFiles() {
  std::vector<NamedBytes> files;
  for (const auto& entry : std::filesystem::directory_iterator(SourceFolder())) {
    files.push_back({entry.path().filename().string(), ReadBytes(entry.path().string())});
  }
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  EXPECT_GE(files.size(), 70u);
  return files;
}

std::string GoldenImageFile(absl::string_view name) {
  return ReadBytes(absl::StrCat(SourceFolder(), name));
}

}  // namespace tost
