// Decoded pictures against what Pillow makes of the same files (images/README.md): every value is
// the same.
#include <algorithm>
#include <string>
#include <vector>

#include "data/atomic_file.h"
#include "data/image_decode.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/golden/golden.h"

namespace tost::data {
namespace {

using golden::GoldenFile;

std::string ImageFolder() { return golden::GoldenFolder() + "/images/"; }

std::vector<std::string> Pictures() {
  std::vector<std::string> names;
  const auto index = nlohmann::json::parse(*ReadFile(ImageFolder() + "decoded/index.json"));
  for (const auto& [name, facts] : index["pictures"].items()) names.push_back(name);
  EXPECT_GE(names.size(), 70u);
  return names;
}

void ExpectPixels(const GoldenFile& file, const std::string& tensor, const Image& image) {
  ASSERT_EQ(file.ShapeOf(tensor), Shape({image.height, image.width, 3}));
  const auto expected = file.Values<uint8_t>(tensor);
  const auto [a, b] = std::mismatch(expected.begin(), expected.end(), image.pixels.begin());
  EXPECT_EQ(a, expected.end()) << tensor << " differs first at value " << a - expected.begin()
                               << ": " << int{*b} << " against " << int{*a};
}

// What a PNG file's samples mean comes from its writer; Pillow clips 16-bit gray.
TEST(ImageGolden, PixelsOfAllPictures) {
  for (const std::string& name : Pictures()) {
    SCOPED_TRACE(name);
    const auto file = GoldenFile::Read(ImageFolder() + "decoded/" + name + ".safetensors");
    const auto bytes = ReadFile(ImageFolder() + "source/" + name);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    const auto stored = DecodeImage(*bytes, name, Orientation::kStored);
    ASSERT_TRUE(stored.ok()) << stored.status();
    ExpectPixels(file, file.Has("rgb_expected") ? "rgb_expected" : "rgb", *stored);
    const auto upright = DecodeImage(*bytes, name, Orientation::kUpright);
    ASSERT_TRUE(upright.ok()) << upright.status();
    if (file.Has("rgb_upright")) {
      ExpectPixels(file, "rgb_upright", *upright);
    } else {
      EXPECT_EQ(*upright, *stored);
    }
  }
}

TEST(ImageGolden, HeadersOfAllPictures) {
  const auto index = nlohmann::json::parse(*ReadFile(ImageFolder() + "decoded/index.json"));
  for (const auto& [name, facts] : index["pictures"].items()) {
    SCOPED_TRACE(name);
    const std::string bytes = *ReadFile(ImageFolder() + "source/" + name);
    const auto header = ReadImageHeader(bytes, name, Orientation::kStored);
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_EQ(header->format, facts["format"].get<std::string>());
    EXPECT_EQ(header->width, facts["size_wh"][0]);
    EXPECT_EQ(header->height, facts["size_wh"][1]);
    const auto upright = ReadImageHeader(bytes, name, Orientation::kUpright);
    const auto image = DecodeImage(bytes, name, Orientation::kUpright);
    EXPECT_EQ(upright->width, image->width);
    EXPECT_EQ(upright->height, image->height);
  }
}

}  // namespace
}  // namespace tost::data
