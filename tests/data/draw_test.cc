#include "data/draw.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "data/contact_sheet.h"
#include "gtest/gtest.h"
#include "tests/data/test_pictures.h"

namespace tost::data {
namespace {

constexpr Color kRed = {255, 0, 0};

Color At(const Image& image, int x, int y) {
  const uint8_t* p = image.Pixel(x, y);
  return {p[0], p[1], p[2]};
}

// What is drawn, one character for each pixel.
std::string Shown(const Image& image) {
  std::string shown;
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) shown += At(image, x, y) == Color{} ? ' ' : '#';
    shown += '\n';
  }
  return shown;
}

std::string ShownText(absl::string_view text, int width, int scale = 1) {
  Image canvas(width, TextHeight(scale));
  Text(canvas, 0, 0, text, kWhite, scale);
  return Shown(canvas);
}

TEST(Text, ReadsAsItWasWritten) {
  EXPECT_EQ(ShownText("T1", 11),
            "#####   #  \n"
            "  #    ##  \n"
            "  #     #  \n"
            "  #     #  \n"
            "  #     #  \n"
            "  #     #  \n"
            "  #    ### \n");
}

TEST(Text, EveryPrintableCharacterLooksDifferent) {
  std::set<std::string> glyphs;
  for (char c = ' '; c <= '~'; ++c) glyphs.insert(ShownText(std::string(1, c), 5));
  EXPECT_EQ(glyphs.size(), 95u);
}

TEST(Text, OtherCharactersAreQuestionMarks) {
  EXPECT_EQ(ShownText("\xc3\xa9\n\x7f", 17), ShownText("???", 17));
  EXPECT_EQ(TextWidth("\xe2\x82\xac"), 5);
}

TEST(Text, HasTheWidthThatIsSaid) {
  EXPECT_EQ(TextWidth(""), 0);
  for (int scale : {1, 3}) {
    const int width = TextWidth("MM", scale);
    EXPECT_EQ(width, 11 * scale);
    const std::string shown = ShownText("MM", width + 2, scale);
    EXPECT_EQ(shown.find('\n') - shown.substr(0, shown.find('\n')).rfind('#'), 3u);
  }
}

TEST(Drawing, IsClippedToTheCanvas) {
  Image canvas(4, 3);
  FillRectangle(canvas, {-5, 1, 7, 100}, kRed);
  EXPECT_EQ(Shown(canvas), "    \n##  \n##  \n");
  canvas = Image(4, 3);
  Blit(canvas, 3, -1, PositionPicture(9, 3));
  // Columns 0 of rows 1 and 2 of the picture, of which red says 0.
  EXPECT_EQ(At(canvas, 3, 0), (Color{0, 1, 0}));
  EXPECT_EQ(At(canvas, 3, 1), (Color{0, 2, 0}));
  EXPECT_EQ(At(canvas, 3, 2), kBlack);
  Blit(canvas, -20, 0, PositionPicture(9, 3));
  Text(canvas, -3, -3, "outside", kRed, 40);
}

TEST(HeatColor, GetsLighterAndStaysInItsRange) {
  double last = 0;
  for (int i = 0; i <= 20; ++i) {
    const Color color = HeatColor(i / 20.0);
    const double luma = 0.299 * color[0] + 0.587 * color[1] + 0.114 * color[2];
    EXPECT_GT(luma, last);
    last = luma;
  }
  EXPECT_EQ(HeatColor(-1), HeatColor(0));
  EXPECT_EQ(HeatColor(NAN), HeatColor(0));
  EXPECT_EQ(HeatColor(INFINITY), (Color{253, 231, 37}));
}

TEST(ContactSheet, PutsTilesInRowsOverTheirCaptions) {
  const Tile small{NoisePicture(8, 6, 1), "ab"}, large{NoisePicture(20, 10, 2), "c"};
  const std::vector<Tile> tiles = {small, large, small};
  const Image sheet = ContactSheet(tiles, 2, "t");
  // Cells of 20 x (10 + 3 + 7) pixels with gaps of 8, below a title of 14 pixels.
  ASSERT_EQ(sheet.width, 8 + 2 * 28);
  ASSERT_EQ(sheet.height, 30 + 2 * 28);
  EXPECT_EQ(Crop(sheet, {8, 30, 8, 6}), small.image);
  EXPECT_EQ(Crop(sheet, {36, 30, 20, 10}), large.image);
  EXPECT_EQ(Crop(sheet, {8, 58, 8, 6}), small.image);
  EXPECT_EQ(Crop(sheet, {8, 43, 20, 7}), Crop(sheet, {8, 71, 20, 7}));  // "ab"
  EXPECT_NE(Crop(sheet, {8, 43, 20, 7}), Crop(sheet, {36, 43, 20, 7}));
  EXPECT_EQ(At(sheet, 63, 85), kWhite);
  EXPECT_EQ(ContactSheet(tiles, 2, "t"), sheet);
}

TEST(ContactSheet, WithoutTilesIsItsTitle) {
  const Image sheet = ContactSheet({}, 3, "nothing");
  EXPECT_EQ(sheet.width, TextWidth("nothing", 2) + 16);
  EXPECT_EQ(ContactSheet({}, 1, "").width, 16);
}

}  // namespace
}  // namespace tost::data
