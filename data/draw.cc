#include "data/draw.h"

#include <algorithm>
#include <cmath>
#include <ostream>

#include "autograd/base/errors.h"

namespace tost::data {
namespace {

constexpr int kGlyphWidth = 5;
constexpr int kGlyphHeight = 7;
constexpr int kAdvance = kGlyphWidth + 1;
constexpr int kGlyphsPerBlock = 12;
constexpr char kFirst = ' ';
constexpr char kLast = '~';

// ASCII from ' ' to '~', twelve characters a block.
constexpr const char* kGlyphs[][kGlyphHeight] = {
    {
        "        #    # #   # #    #   ##  #  ##     #      #   #               ",
        "        #    # #   # #   #### ##  # #  #    #     #     #     #     #  ",
        "        #    # #  ##### # #      #  # #    #     #       #  # # #   #  ",
        "        #          # #   ###    #    #           #       #   ###  #####",
        "        #         #####   # #  #    # # #        #       #  # # #   #  ",
        "                   # #  ####  #  ## #  #          #     #     #     #  ",
        "        #          # #    #   #  ##  ## #          #   #               ",
    },
    {
        "                         ###    #    ###  #####    #  #####   ##  #####",
        "                      # #   #  ##   #   #    #    ##  #      #        #",
        "                     #  #  ##   #       #   #    # #  ####  #        # ",
        "      #####         #   # # #   #      #     #  #  #      # ####    #  ",
        " ##                #    ##  #   #     #       # #####     # #   #  #   ",
        "  #          ##   #     #   #   #    #    #   #    #  #   # #   #  #   ",
        " #           ##          ###   ###  #####  ###     #   ###   ###   #   ",
    },
    {
        " ###   ###                 #         #     ###   ###   ###  ####   ### ",
        "#   # #   #  ##    ##     #           #   #   # #   # #   # #   # #   #",
        "#   # #   #  ##    ##    #    #####    #      #     # #   # #   # #    ",
        " ###   ####             #               #    #   ## # #   # ####  #    ",
        "#   #     #  ##    ##    #    #####    #    #   # # # ##### #   # #    ",
        "#   #    #   ##     #     #           #         # # # #   # #   # #   #",
        " ###   ##          #       #         #      #    ###  #   # ####   ### ",
    },
    {
        "###   ##### #####  ###  #   #  ###    ### #   # #     #   # #   #  ### ",
        "#  #  #     #     #   # #   #   #      #  #  #  #     ## ## #   # #   #",
        "#   # #     #     #     #   #   #      #  # #   #     # # # ##  # #   #",
        "#   # ####  ####  # ### #####   #      #  ##    #     # # # # # # #   #",
        "#   # #     #     #   # #   #   #      #  # #   #     #   # #  ## #   #",
        "#  #  #     #     #   # #   #   #   #  #  #  #  #     #   # #   # #   #",
        "###   ##### #      #### #   #  ###   ##   #   # ##### #   # #   #  ### ",
    },
    {
        "####   ###  ####   #### ##### #   # #   # #   # #   # #   # #####  ### ",
        "#   # #   # #   # #       #   #   # #   # #   # #   # #   #     #  #   ",
        "#   # #   # #   # #       #   #   # #   # #   #  # #  #   #    #   #   ",
        "####  #   # ####   ###    #   #   # #   # # # #   #    # #    #    #   ",
        "#     # # # # #       #   #   #   # #   # # # #  # #    #    #     #   ",
        "#     #  #  #  #      #   #   #   #  # #  # # # #   #   #   #      #   ",
        "#      ## # #   # ####    #    ###    #    # #  #   #   #   #####  ### ",
    },
    {
        "       ###    #          #          #               #         ##       ",
        "#        #   # #          #         #               #        #  #  ####",
        " #       #  #   #          #   ###  # ##   ###   ## #  ###   #    #   #",
        "  #      #                        # ##  # #     #  ## #   # ###   #   #",
        "   #     #                     #### #   # #     #   # #####  #     ####",
        "    #    #                    #   # #   # #   # #   # #      #        #",
        "       ###        #####        #### ####   ###   ####  ###   #     ### ",
    },
    {
        "#       #      #  #      ##                                            ",
        "#                 #       #                                            ",
        "# ##   ##     ##  #  #    #   ## #  # ##   ###  ####   ## # # ##   ### ",
        "##  #   #      #  # #     #   # # # ##  # #   # #   # #  ## ##  # #    ",
        "#   #   #      #  ##      #   # # # #   # #   # ####   #### #      ### ",
        "#   #   #   #  #  # #     #   #   # #   # #   # #         # #         #",
        "#   #  ###   ##   #  #   ###  #   # #   #  ###  #         # #     #### ",
    },
    {
        " #                                           #    #    #               ",
        " #                                          #     #     #              ",
        "###   #   # #   # #   # #   # #   # #####   #     #     #    #         ",
        " #    #   # #   # #   #  # #  #   #    #   #      #      #  # # #      ",
        " #    #   # #   # # # #   #    ####   #     #     #     #      #       ",
        " #  # #  ##  # #  # # #  # #      #  #      #     #     #              ",
        "  ##   ## #   #    # #  #   #  ###  #####    #    #    #               ",
    },
};

bool Dot(char character, int column, int row) {
  const int index = character - kFirst;
  const char* line = kGlyphs[index / kGlyphsPerBlock][row];
  return line[index % kGlyphsPerBlock * kAdvance + column] == '#';
}

// Calls `body` with each character that is to be shown.
template <class Body>
void ForEachCharacter(absl::string_view text, Body&& body) {
  for (char c : text) {
    // The bytes of a character of UTF-8 behind its first one.
    if ((static_cast<unsigned char>(c) & 0xc0) == 0x80) continue;
    body(c >= kFirst && c <= kLast ? c : '?');
  }
}

}  // namespace

void FillRectangle(Image& canvas, const Region& region, const Color& color) {
  const int64_t right = std::min<int64_t>(canvas.width, int64_t{region.x} + region.width);
  const int64_t bottom = std::min<int64_t>(canvas.height, int64_t{region.y} + region.height);
  for (int y = std::max(0, region.y); y < bottom; ++y) {
    for (int x = std::max(0, region.x); x < right; ++x) {
      std::copy(color.begin(), color.end(), canvas.Pixel(x, y));
    }
  }
}

void Blit(Image& canvas, int x, int y, const Image& picture) {
  const int left = std::max(0, -x);
  const int right = static_cast<int>(std::min<int64_t>(picture.width, int64_t{canvas.width} - x));
  if (left >= right) return;
  for (int row = std::max(0, -y);
       row < std::min<int64_t>(picture.height, int64_t{canvas.height} - y); ++row) {
    std::copy_n(picture.Pixel(left, row), (right - left) * 3, canvas.Pixel(x + left, y + row));
  }
}

void Text(Image& canvas, int x, int y, absl::string_view text, const Color& color, int scale) {
  TOST_CHECK(scale > 0) << "Text at scale " << scale;
  ForEachCharacter(text, [&](char c) {
    for (int row = 0; row < kGlyphHeight; ++row) {
      for (int column = 0; column < kGlyphWidth; ++column) {
        if (!Dot(c, column, row)) continue;
        FillRectangle(canvas, {x + column * scale, y + row * scale, scale, scale}, color);
      }
    }
    x += kAdvance * scale;
  });
}

int TextWidth(absl::string_view text, int scale) {
  int characters = 0;
  ForEachCharacter(text, [&](char) { ++characters; });
  return characters == 0 ? 0 : (characters * kAdvance - 1) * scale;
}

Color HeatColor(double value) {
  constexpr double kPoints[5][3] = {
      {68, 1, 84}, {59, 82, 139}, {33, 145, 140}, {94, 201, 98}, {253, 231, 37}};
  const double place = 4 * (value > 0 ? std::min(value, 1.0) : 0);
  const int below = std::min(3, static_cast<int>(place));
  Color color;
  for (size_t c = 0; c < color.size(); ++c) {
    const double mixed = std::lerp(kPoints[below][c], kPoints[below + 1][c], place - below);
    color[c] = static_cast<uint8_t>(std::lround(mixed));
  }
  return color;
}

}  // namespace tost::data
