// Acceptance of picture decoding; the names are those of the acceptance statements. Unusual and
// broken files are made here out of pictures that we drew.
#include <cstdlib>
#include <string>
#include <vector>

#include "data/exif.h"
#include "data/image_decode.h"
#include "data/image_write.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"
#include "tests/data/test_images.h"

namespace tost::data {
namespace {

Image Decoded(const std::string& bytes, const std::string& name,
              Orientation orientation = Orientation::kUpright) {
  absl::StatusOr<Image> image = DecodeImage(bytes, name, orientation);
  EXPECT_TRUE(image.ok()) << image.status();
  return image.ok() ? *std::move(image) : Image();
}

double MeanDifference(const Image& a, const Image& b) {
  EXPECT_EQ(a.pixels.size(), b.pixels.size());
  double sum = 0;
  for (size_t i = 0; i < a.pixels.size(); ++i) sum += std::abs(a.pixels[i] - b.pixels[i]);
  return sum / static_cast<double>(a.pixels.size());
}

Image Flat(int width, int height, std::vector<uint8_t> rgb) {
  Image image(width, height);
  for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = rgb[i % 3];
  return image;
}

TEST(D22, TheContentDecidesNotTheName) {
  const Image image = DrawnImage(2, 2);
  EXPECT_EQ(Decoded(EncodePng(image), "x.jpg"), image);
  EXPECT_EQ(Decoded(GoldenImageFile("gif_plain.gif"), "x.jpg"),
            Decoded(GoldenImageFile("gif_plain.gif"), "x.gif"));
  const std::string jpeg = EncodeJpeg(DrawnImage(50, 40));
  EXPECT_EQ(Decoded(jpeg, "x.png"), Decoded(jpeg, "x.jpg"));
}

TEST(D22, AlphaIsDropped) {
  EXPECT_EQ(Decoded(EncodeRgbaPng(1, 1, {200, 100, 50, 128}), "x.png"), Flat(1, 1, {200, 100, 50}));
  EXPECT_EQ(Decoded(EncodeRgbaPng(1, 1, {200, 100, 50, 0}), "x.png"), Flat(1, 1, {200, 100, 50}));
}

TEST(D22, CmykBecomesRgb) {
  // Coded JPEG is not exact: 12 is the bound for pure red, and the quality's loss for the other.
  constexpr int kLoss = 12;
  const Image red = Flat(8, 8, {255, 0, 0});
  EXPECT_LE(MeanDifference(Decoded(EncodeJpeg(red, {.kind = JpegKind::kCmyk}), "x.jpg"), red),
            kLoss);
  const Image drawn = DrawnImage(96, 80);
  const Image cmyk = Decoded(EncodeJpeg(drawn, {.kind = JpegKind::kCmyk}), "x.jpg");
  EXPECT_LE(MeanDifference(cmyk, drawn), kLoss);
}

TEST(D22, GrayHasThreeEqualPlanes) {
  const Image image = Decoded(EncodeJpeg(DrawnImage(40, 30), {.kind = JpegKind::kGray}), "x.jpg");
  ASSERT_EQ(image.width, 40);
  ASSERT_EQ(image.height, 30);
  for (size_t i = 0; i < image.pixels.size(); i += 3) {
    ASSERT_EQ(image.pixels[i], image.pixels[i + 1]);
    ASSERT_EQ(image.pixels[i], image.pixels[i + 2]);
  }
}

TEST(D22, UnusualPicturesLoad) {
  const Image drawn = DrawnImage(60, 40);
  const std::string jpeg = EncodeJpeg(drawn);
  const Image plain = Decoded(jpeg, "a.jpg");
  // Orientation 6 turns, 9 does not exist, and the switch turns neither.
  const std::string turned = WithJpegOrientation(jpeg, 6, true);
  EXPECT_EQ(Decoded(turned, "a.jpg"), Turned(plain, TurnOfOrientation(6)));
  EXPECT_EQ(Decoded(turned, "a.jpg", Orientation::kStored), plain);
  EXPECT_EQ(Decoded(WithJpegOrientation(jpeg, 9, true), "a.jpg"), plain);
  EXPECT_EQ(Decoded(jpeg + std::string(1800, '\x5A'), "a.jpg"), plain);
  const std::string stray = jpeg.substr(0, jpeg.size() - 2) + std::string(240, '\x5A') + "\xFF\xD9";
  EXPECT_EQ(Decoded(stray, "a.jpg"), plain);
  for (const Image& image : {Flat(1, 1, {9, 8, 7}), DrawnImage(1, 3000), DrawnImage(3000, 2)}) {
    EXPECT_EQ(Decoded(EncodePng(image), "a.png"), image);
    const Image lossy = Decoded(EncodeJpeg(image), "a.jpg");
    EXPECT_EQ(lossy.width, image.width);
    EXPECT_EQ(lossy.height, image.height);
  }
}

TEST(E1, BrokenPicturesAreOneLine) {
  const std::string jpeg = EncodeJpeg(DrawnImage(200, 100));
  const std::string png = EncodePng(DrawnImage(60, 40));
  const auto patched = [&](size_t at, const std::string& bytes) {
    return std::string(png).replace(at, bytes.size(), bytes);
  };
  const struct {
    std::string bytes;
    std::string says;
  } cases[] = {
      {"", "empty"},
      {jpeg.substr(0, 24), "premature end of JPEG data after 24 bytes"},
      {jpeg.substr(0, jpeg.size() / 2), "premature end of JPEG data"},
      {jpeg.substr(0, jpeg.size() - 2), "premature end of JPEG data"},
      {WithJpegExtents(jpeg, 65500, 65500), "65500 x 65500 pixels is over the limit"},
      {WithJpegExtents(jpeg, 0, 100), "JPEG data"},
      {png.substr(0, png.size() / 2), "premature end of PNG data"},
      {patched(16, std::string("\0\0\0\0", 4)), "0 x 40 pixels has no pixel"},
      {patched(16, std::string("\0\x01\x86\xA0\0\x01\x86\xA0", 8)), "over the limit of 178956970"},
      {patched(29, "\1\2\3\4"), "CRC"},
      {std::string("BM\x9a\0\0\0", 6), "a BMP picture"},
      {std::string(4096, '\x5A'), "no picture that is known"},
  };
  for (const auto& file : cases) {
    const auto image = DecodeImage(file.bytes, "set/a.jpg", Orientation::kUpright);
    ExpectOneLine(image.status(), {"set/a.jpg: ", file.says});
    const auto stored = DecodeImage(file.bytes, "set/a.jpg", Orientation::kStored);
    EXPECT_EQ(stored.status(), image.status());
  }
}

}  // namespace
}  // namespace tost::data
