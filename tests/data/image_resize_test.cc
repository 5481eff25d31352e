#include "data/image_resize.h"

#include <algorithm>

#include "gtest/gtest.h"
#include "tests/data/test_pictures.h"

namespace tost::data {
namespace {

constexpr Filter kFilters[] = {Filter::kNearest, Filter::kBox, Filter::kBilinear, Filter::kBicubic,
                               Filter::kLanczos};

// The middle of the whole picture, resized: what ResizeShorterAndCrop computes only in part.
Image ResizedThenCropped(const Image& image, int shorter, int crop, Filter filter) {
  const int side = std::min(image.width, image.height);
  const int width = shorter * image.width / side, height = shorter * image.height / side;
  // An odd margin has its half pixel on the even side.
  auto margin = [crop](int extent) {
    const int rest = extent - crop;
    return rest % 4 == 3 ? rest / 2 + 1 : rest / 2;
  };
  return Crop(Resize(image, width, height, filter), {margin(width), margin(height), crop, crop});
}

TEST(Resize, TheSameSizeChangesNothing) {
  const Image picture = NoisePicture(13, 7);
  for (Filter filter : kFilters) EXPECT_EQ(Resize(picture, 13, 7, filter), picture);
}

TEST(Resize, OneColourStaysThatColour) {
  Image picture(9, 5);
  std::fill(picture.pixels.begin(), picture.pixels.end(), uint8_t{201});
  for (Filter filter : kFilters) {
    const Image resized = Resize(picture, 31, 2, filter);
    EXPECT_EQ(std::ranges::count(resized.pixels, 201), std::ssize(resized.pixels));
  }
}

TEST(CropAndResize, WholeBordersAreACropResized) {
  const Image picture = NoisePicture(40, 30);
  for (Filter filter : kFilters) {
    EXPECT_EQ(CropAndResize(picture, {5, 7, 25, 21}, 16, 16, filter),
              Resize(Crop(picture, {5, 7, 20, 14}), 16, 16, filter));
  }
}

TEST(CropAndResize, NothingOutsideTheBoxHasAShare) {
  Image picture = NoisePicture(40, 30);
  const Box box{5.5, 7.25, 24.75, 20.5};
  const Image before = CropAndResize(picture, box, 8, 8, Filter::kBicubic);
  for (int y = 0; y < 30; ++y) {
    for (int x = 0; x < 40; ++x) {
      if (x < 5 || x >= 25 || y < 7 || y >= 21) picture.Pixel(x, y)[1] ^= 0xff;
    }
  }
  EXPECT_EQ(CropAndResize(picture, box, 8, 8, Filter::kBicubic), before);
}

TEST(ResizeShorterAndCrop, IsTheMiddleOfTheWholePicture) {
  for (const auto& [width, height] : {std::pair{50, 37}, {37, 50}, {37, 37}, {64, 200}}) {
    const Image picture = NoisePicture(width, height);
    for (Filter filter : kFilters) {
      for (const auto& [shorter, crop] : {std::pair{32, 28}, {37, 32}, {24, 24}, {33, 32}}) {
        EXPECT_EQ(ResizeShorterAndCrop(picture, shorter, crop, filter),
                  ResizedThenCropped(picture, shorter, crop, filter))
            << width << "x" << height << " to " << shorter << ", " << crop;
      }
    }
  }
}

TEST(ResizeShorterAndCrop, WorksForOneColumnOfThreeThousandPixels) {
  // As a whole it would become 256 x 768000 pixels.
  const Image middle = ResizeShorterAndCrop(PositionPicture(1, 3000), 256, 224, Filter::kBicubic);
  EXPECT_EQ(middle.width, 224);
  EXPECT_EQ(middle.height, 224);
  // 224 of 256 rows of the one pixel around row 1500 = 220 (mod 256).
  EXPECT_NEAR(middle.Pixel(0, 112)[1], 220, 1);
  EXPECT_EQ(ResizeShorterAndCrop(PositionPicture(3000, 1), 256, 224, Filter::kNearest).height, 224);
}

TEST(FlipHorizontally, MirrorsEveryRow) {
  for (int width : {1, 2, 5}) {
    const Image picture = NoisePicture(width, 3), flipped = FlipHorizontally(picture);
    for (int y = 0; y < 3; ++y) {
      for (int x = 0; x < width; ++x) {
        EXPECT_TRUE(std::equal(flipped.Pixel(x, y), flipped.Pixel(x, y) + 3,
                               picture.Pixel(width - 1 - x, y)));
      }
    }
  }
}

TEST(PadAndCrop, TheMiddleIsThePictureAndTheBorderIsBlack) {
  const Image picture = NoisePicture(6, 6);
  EXPECT_EQ(PadAndCrop(picture, 4, 4, 4), picture);
  const Image corner = PadAndCrop(picture, 4, 0, 8);
  for (int y = 0; y < 6; ++y) {
    for (int x = 0; x < 6; ++x) {
      const bool inside = x >= 4 && y < 2;
      for (int c = 0; c < 3; ++c) {
        EXPECT_EQ(corner.Pixel(x, y)[c], inside ? picture.Pixel(x - 4, y + 4)[c] : 0);
      }
    }
  }
  // Nothing of a picture smaller than its border is left.
  EXPECT_EQ(PadAndCrop(NoisePicture(2, 2), 4, 0, 0), Image(2, 2));
}

TEST(ResizeDeathTest, BoxesAndRegionsLieInside) {
  const Image picture(4, 4);
  EXPECT_DEATH(Resize(picture, 2, 2, Filter::kBox, {0, 0, 4.5, 4}), "of a picture of 4x4");
  EXPECT_DEATH(Resize(picture, 0, 2, Filter::kBox), "to 0x2");
  EXPECT_DEATH(Crop(picture, {2, 0, 3, 1}), "3x1 pixels at \\(2, 0\\) of a picture of 4x4");
}

}  // namespace
}  // namespace tost::data
