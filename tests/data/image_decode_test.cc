#include "data/image_decode.h"

#include <cmath>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "data/exif.h"
#include "data/image_write.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/data/test_files.h"
#include "tests/data/test_images.h"

namespace tost::data {
namespace {

constexpr int kHuge = 1 << 20;  // a target no region reaches, so nothing is scaled down

Image CutOf(const Image& whole, const Region& region) { return Cut(whole, region).image; }

Region RandomRegion(int width, int height, std::mt19937& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  Region region{below(width), below(height)};
  region.width = 1 + below(width - region.x);
  region.height = 1 + below(height - region.y);
  return region;
}

std::string Text(const Region& region) {
  return absl::StrCat(region.width, " x ", region.height, " at ", region.x, ", ", region.y);
}

void ExpectRegionsOfWhole(const std::string& bytes, Orientation orientation, int regions) {
  const auto whole = DecodeImage(bytes, "a", orientation);
  ASSERT_TRUE(whole.ok()) << whole.status();
  std::mt19937 random(7);
  for (int i = 0; i < regions; ++i) {
    const Region region = RandomRegion(whole->width, whole->height, random);
    const auto decoded = DecodeRegion(bytes, "a", orientation, region, kHuge, kHuge);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    ASSERT_EQ(decoded->image, CutOf(*whole, region)) << Text(region);
    EXPECT_EQ(decoded->x0, 0);
    EXPECT_EQ(decoded->y0, 0);
    EXPECT_EQ(decoded->x1, region.width);
    EXPECT_EQ(decoded->y1, region.height);
  }
}

std::vector<JpegSettings> AllSamplings() {
  std::vector<JpegSettings> all;
  for (const int horizontal : {1, 2, 4}) {
    for (const int vertical : {1, 2, 4}) {
      // JPEG's own limit: ten blocks a unit.
      if (horizontal * vertical > 8) continue;
      all.push_back({.horizontal = horizontal, .vertical = vertical});
    }
  }
  all.push_back({.chroma = 2, .horizontal = 1, .vertical = 1});
  all.push_back({.progressive = true});
  all.push_back({.restart_rows = 1});
  all.push_back({.kind = JpegKind::kGray});
  all.push_back({.kind = JpegKind::kCmyk});
  return all;
}

std::string Text(const JpegSettings& settings) {
  return absl::StrCat(settings.horizontal, "x", settings.vertical, " to ", settings.chroma,
                      settings.progressive ? " progressive" : "", " kind ",
                      static_cast<int>(settings.kind));
}

TEST(DecodeRegion, HasThePixelsOfTheWholePicture) {
  for (const JpegSettings& settings : AllSamplings()) {
    SCOPED_TRACE(Text(settings));
    ExpectRegionsOfWhole(EncodeJpeg(DrawnImage(203, 151), settings), Orientation::kStored, 60);
  }
}

TEST(DecodeRegion, OfEveryGoldenFile) {
  for (const NamedBytes& file : GoldenImageFiles()) {
    SCOPED_TRACE(file.name);
    ExpectRegionsOfWhole(file.bytes, Orientation::kStored, 6);
    ExpectRegionsOfWhole(file.bytes, Orientation::kUpright, 6);
  }
}

// At scale s the region's pixels are those of the whole picture at that scale.
TEST(DecodeRegion, IsScaledDownWhereTheTargetAllows) {
  constexpr int kWidth = 331, kHeight = 250;
  for (const JpegSettings& settings : AllSamplings()) {
    SCOPED_TRACE(Text(settings));
    const std::string bytes = EncodeJpeg(DrawnImage(kWidth, kHeight), settings);
    for (const int scale : {2, 4, 8}) {
      const Region all{0, 0, kWidth, kHeight};
      const auto whole =
          DecodeRegion(bytes, "a", Orientation::kStored, all, kWidth / scale, kHeight / scale);
      ASSERT_EQ(whole->image.width, (kWidth + scale - 1) / scale);
      ASSERT_EQ(whole->image.height, (kHeight + scale - 1) / scale);
      EXPECT_EQ(whole->x1, static_cast<double>(kWidth) / scale);
      std::mt19937 random(11);
      for (int i = 0; i < 20; ++i) {
        const Region region = RandomRegion(kWidth, kHeight, random);
        if (region.width < scale || region.height < scale) continue;
        const auto part = DecodeRegion(bytes, "a", Orientation::kStored, region,
                                       region.width / scale, region.height / scale);
        const int x = region.x / scale, y = region.y / scale;
        ASSERT_EQ(part->image, CutOf(whole->image, {x, y, part->image.width, part->image.height}))
            << Text(region) << " at 1/" << scale;
        EXPECT_EQ(part->x0 + x, static_cast<double>(region.x) / scale);
        EXPECT_EQ(part->x1 - part->x0, static_cast<double>(region.width) / scale);
        EXPECT_EQ(part->y0 + y, static_cast<double>(region.y) / scale);
        EXPECT_EQ(part->y1 - part->y0, static_cast<double>(region.height) / scale);
        EXPECT_LE(part->x1, part->image.width);
        EXPECT_LE(part->y1, part->image.height);
      }
    }
  }
}

TEST(DecodeRegion, KeepsAsManyPixelsAsTheTarget) {
  const std::string bytes = EncodeJpeg(DrawnImage(400, 300));
  const auto width = [&](int target_width, int target_height) {
    return DecodeRegion(bytes, "a", Orientation::kStored, {0, 0, 400, 300}, target_width,
                        target_height)
        ->image.width;
  };
  EXPECT_EQ(width(200, 150), 200);
  EXPECT_EQ(width(201, 150), 400);
  EXPECT_EQ(width(200, 151), 400);
  EXPECT_EQ(width(100, 75), 100);
  EXPECT_EQ(width(50, 37), 50);
  EXPECT_EQ(width(1, 1), 50);
}

// A pixel at 1/8 is about the mean of the 8 x 8 pixels it stands for, at the place said.
TEST(DecodeRegion, ScaledPixelsLieWhereTheBoxSays) {
  Image ramp(256, 256);
  for (int y = 0; y < 256; ++y) {
    for (int x = 0; x < 256; ++x) {
      ramp.Pixel(x, y)[0] = static_cast<uint8_t>(x);
      ramp.Pixel(x, y)[1] = static_cast<uint8_t>(y);
    }
  }
  const std::string bytes = EncodeJpeg(ramp, {.quality = 98, .horizontal = 1, .vertical = 1});
  const Region region{61, 90, 160, 120};
  const auto part = DecodeRegion(bytes, "a", Orientation::kStored, region, 20, 15);
  ASSERT_EQ(part->image.width, 21);
  // The pixel that begins at i in the part covers 8 columns from region.x + 8 · (i - x0).
  EXPECT_NEAR(part->image.Pixel(10, 0)[0], region.x + 8 * (10 - part->x0) + 3.5, 2);
  EXPECT_NEAR(part->image.Pixel(0, 8)[1], region.y + 8 * (8 - part->y0) + 3.5, 2);
}

TEST(DecodeRegion, TurnsTheBoxWithThePicture) {
  const Image image = DrawnImage(160, 96);
  const std::string jpeg = EncodeJpeg(image);
  const auto plain = DecodeRegion(jpeg, "a", Orientation::kStored, {21, 10, 64, 40}, 32, 20);
  ASSERT_TRUE(plain.ok());
  // Upright is a quarter turn clockwise: x counts the stored rows from the bottom, y the columns.
  const auto turned = DecodeRegion(WithJpegOrientation(jpeg, 6, true), "a", Orientation::kUpright,
                                   {96 - 10 - 40, 21, 40, 64}, 20, 32);
  ASSERT_TRUE(turned.ok());
  EXPECT_EQ(turned->image, Turned(plain->image, TurnOfOrientation(6)));
  EXPECT_EQ(turned->x0, plain->image.height - plain->y1);
  EXPECT_EQ(turned->x1, plain->image.height - plain->y0);
  EXPECT_EQ(turned->y0, plain->x0);
  EXPECT_EQ(turned->y1, plain->x1);
  EXPECT_NE(turned->y0, 0);
}

TEST(DecodeRegion, SeesThatTheEndIsMissing) {
  const std::string bytes = EncodeJpeg(DrawnImage(200, 300));
  const Region top{0, 0, 200, 20};
  EXPECT_TRUE(DecodeRegion(bytes, "a.jpg", Orientation::kStored, top, 200, 20).ok());
  const auto cut =
      DecodeRegion(bytes.substr(0, bytes.size() / 2), "a.jpg", Orientation::kStored, top, 200, 20);
  ExpectOneLine(cut.status(), {"a.jpg", "premature end of JPEG data"});
}

TEST(Exif, OrientationOfBothByteOrdersAndOfPng) {
  const Image image = DrawnImage(30, 20);
  const std::string jpeg = EncodeJpeg(image), png = EncodePng(image);
  for (int orientation = 0; orientation <= 10; ++orientation) {
    SCOPED_TRACE(orientation);
    const ExifTurn turn = TurnOfOrientation(orientation);
    EXPECT_EQ(turn == ExifTurn{}, orientation < 2 || orientation > 8);
    EXPECT_EQ(JpegTurn(WithJpegOrientation(jpeg, orientation, true)), turn);
    EXPECT_EQ(JpegTurn(WithJpegOrientation(jpeg, orientation, false)), turn);
    EXPECT_EQ(PngTurn(WithPngOrientation(png, orientation)), turn);
    const std::string turned = WithPngOrientation(png, orientation);
    EXPECT_EQ(*DecodeImage(turned, "a", Orientation::kUpright), Turned(image, turn));
    EXPECT_EQ(*DecodeImage(turned, "a", Orientation::kStored), image);
  }
}

TEST(Exif, CutDataAreNoOrientation) {
  const std::string jpeg =
      WithJpegOrientation(EncodeJpeg(DrawnImage(30, 20)), 6, /*big_endian=*/false);
  const size_t exif_end = 2 + 4 + 6 + 26;
  for (size_t size = 0; size < exif_end - 8; ++size) {
    EXPECT_EQ(JpegTurn(jpeg.substr(0, size)), ExifTurn{}) << size;
  }
}

TEST(DecodeImage, NamesOtherFormats) {
  const struct {
    std::string bytes;
    const char* what;
  } cases[] = {{std::string("BM\x36\0\0\0", 6), "a BMP picture"},
               {std::string("RIFF\x24\0\0\0WEBPVP8 ", 16), "a WebP picture"},
               {std::string("II*\0\x08\0\0\0", 8), "a TIFF picture"},
               {std::string("\0\0\0\x1c"
                            "ftypavif",
                            12),
                "an AVIF picture"},
               {std::string("\0\0\0\x1c"
                            "ftypheic",
                            12),
                "a HEIC picture"},
               {"<!DOCTYPE html><html>404</html>", "a web page"}};
  for (const auto& file : cases) {
    const auto image = DecodeImage(file.bytes, "x.jpg", Orientation::kUpright);
    ExpectOneLine(image.status(), {"x.jpg", file.what, "JPEG, PNG and GIF", "convert"});
  }
  ExpectOneLine(DecodeImage("", "x.jpg", Orientation::kUpright).status(), {"x.jpg", "empty"});
  ExpectOneLine(DecodeImage("\x01\x02\n\xFFz", "x.jpg", Orientation::kUpright).status(),
                {"x.jpg", "no picture", "0x01020aff"});
  ExpectOneLine(ReadImageHeader("what", "x.jpg", Orientation::kUpright).status(), {"x.jpg"});
}

// Wherever a file of one picture is cut, it is an error: never a half gray picture. What follows
// the first frame of a GIF is not needed.
TEST(DecodeImage, RefusesCutFiles) {
  for (const NamedBytes& file : GoldenImageFiles()) {
    SCOPED_TRACE(file.name);
    const bool gif = absl::StartsWith(file.bytes, "GIF");
    const size_t needed = gif ? file.bytes.size() / 8 : file.bytes.size();
    for (size_t part = 0; part < 24; ++part) {
      const size_t size = part < 16 ? part * needed / 16 : needed - 1 - (part - 16);
      const auto image = DecodeImage(file.bytes.substr(0, size), file.name, Orientation::kUpright);
      ASSERT_FALSE(image.ok()) << size;
      ExpectOneLine(image.status(), {file.name});
    }
  }
}

// Whatever a byte is changed to: a picture of its header's extents, or one line.
TEST(DecodeImage, SurvivesChangedBytes) {
  std::mt19937 random(3);
  for (const NamedBytes& file : GoldenImageFiles()) {
    SCOPED_TRACE(file.name);
    for (int i = 0; i < 60; ++i) {
      std::string bytes = file.bytes;
      // Half of the changes go to the beginning, where the headers are.
      const size_t within = i % 2 == 0 ? bytes.size() : std::min<size_t>(bytes.size(), 200);
      for (int change = 0; change <= i % 3; ++change) {
        bytes[random() % within] = static_cast<char>(random());
      }
      // Extents that grew large are not what this test is about, but would take its time.
      const auto header = ReadImageHeader(bytes, "a", Orientation::kUpright);
      if (header.ok() && int64_t{header->width} * header->height > 1 << 20) continue;
      const auto image = DecodeImage(bytes, "a", Orientation::kUpright);
      if (!image.ok()) {
        ExpectOneLine(image.status(), {"a"});
        continue;
      }
      ASSERT_TRUE(header.ok());
      EXPECT_EQ(image->width, header->width);
      EXPECT_EQ(image->height, header->height);
      const Region region = RandomRegion(image->width, image->height, random);
      const auto part = DecodeRegion(bytes, "a", Orientation::kUpright, region, 16, 16);
      EXPECT_TRUE(part.ok()) << part.status();
    }
  }
}

TEST(DecodeImage, RefusesTooManyPixelsBeforeDecoding) {
  const std::string jpeg = EncodeJpeg(DrawnImage(64, 64));
  for (const bool progressive : {false, true}) {
    const std::string bytes =
        WithJpegExtents(EncodeJpeg(DrawnImage(64, 64), {.progressive = progressive}), 65500, 65500);
    const auto image = DecodeImage(bytes, "a.jpg", Orientation::kUpright);
    ExpectOneLine(image.status(), {"a.jpg", "65500 x 65500", "178956970"});
  }
  std::string png = EncodePng(DrawnImage(8, 8));
  png.replace(16, 8, std::string("\0\x01\x86\xA0\0\x01\x86\xA0", 8));
  ExpectOneLine(DecodeImage(png, "a.png", Orientation::kUpright).status(),
                {"a.png", "100000 x 100000", "178956970"});
  std::string gif = GoldenImageFile("gif_plain.gif");
  gif.replace(6, 4, "\xFF\xFF\xFF\xFF");
  ExpectOneLine(ReadImageHeader(gif, "a.gif", Orientation::kUpright).status(),
                {"a.gif", "65535 x 65535"});
  // A whole row or column more than the data have is not too much, but ends early.
  ExpectOneLine(
      DecodeImage(WithJpegExtents(jpeg, 64, 4000), "a.jpg", Orientation::kUpright).status(),
      {"a.jpg", "JPEG data"});
}

TEST(DecodeImage, RefusesEndlessScans) {
  const Image image = DrawnImage(32, 32);
  const auto few = DecodeImage(JpegWithRepeatedScan(image, 400), "a", Orientation::kUpright);
  EXPECT_TRUE(few.ok()) << few.status();
  const auto many = DecodeImage(JpegWithRepeatedScan(image, 600), "a.jpg", Orientation::kUpright);
  ExpectOneLine(many.status(), {"a.jpg", "more than 500 scans"});
}

TEST(DecodeImage, LeavesStrayBytesAlone) {
  const std::string jpeg = EncodeJpeg(DrawnImage(60, 40));
  const auto expected = DecodeImage(jpeg, "a", Orientation::kUpright);
  const auto same = [&](const std::string& bytes) {
    const auto image = DecodeImage(bytes, "a", Orientation::kUpright);
    return image.ok() && *image == *expected;
  };
  EXPECT_TRUE(same(jpeg + std::string(1800, 'x')));
  EXPECT_TRUE(same(jpeg.substr(0, jpeg.size() - 2) + std::string(240, '\x11') + "\xFF\xD9"));
}

TEST(DecodeImage, RefusesAWrongCheckSum) {
  std::string png = EncodePng(DrawnImage(60, 40));
  png[29] ^= 1;  // of the first chunk
  ExpectOneLine(DecodeImage(png, "a.png", Orientation::kUpright).status(), {"a.png", "CRC"});
  png[29] ^= 1;
  png[png.size() - 14] ^= 1;  // of the pixels: four bytes before the last chunk, of 12 bytes
  ExpectOneLine(DecodeImage(png, "a.png", Orientation::kUpright).status(), {"a.png", "CRC"});
}

TEST(DecodeImage, GivesTheSameInManyThreads) {
  const std::vector<NamedBytes> files = GoldenImageFiles();
  std::vector<Image> expected;
  for (const NamedBytes& file : files) {
    expected.push_back(*DecodeImage(file.bytes, file.name, Orientation::kUpright));
  }
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < files.size(); ++i) {
        const size_t k = (i * 7 + t * 11) % files.size();
        const auto image = DecodeImage(files[k].bytes, files[k].name, Orientation::kUpright);
        wrong[t] += !image.ok() || *image != expected[k];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, testing::Each(0));
}

TEST(EncodePng, ComesBackAndIsTheSameEveryTime) {
  for (const Image& image : {DrawnImage(1, 1), DrawnImage(77, 3), DrawnImage(1, 300)}) {
    const std::string bytes = EncodePng(image);
    EXPECT_EQ(*DecodeImage(bytes, "a", Orientation::kUpright), image);
    EXPECT_EQ(EncodePng(image), bytes);
  }
}

TEST(WritePng, WritesAFileOrSaysWhyNot) {
  const TemporaryFolder folder;
  const Image image = DrawnImage(20, 10);
  ASSERT_TRUE(WritePng(folder.File("a.png"), image).ok());
  EXPECT_EQ(ReadBytes(folder.File("a.png")), EncodePng(image));
  EXPECT_EQ(folder.Names(), std::vector<std::string>{"a.png"});
  ExpectOneLine(WritePng(folder.File("none/a.png"), image), {"none/a.png"});
}

}  // namespace
}  // namespace tost::data
