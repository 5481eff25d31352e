#include "data/contact_sheet.h"

#include <algorithm>
#include <ostream>

#include "autograd/base/errors.h"
#include "data/draw.h"

namespace tost::data {
namespace {

constexpr int kGap = 8;  // around cells, the title and the sheet
constexpr int kCaptionGap = 3;
constexpr int kTitleScale = 2;

}  // namespace

Image ContactSheet(std::span<const Tile> tiles, int columns, absl::string_view title) {
  TOST_CHECK(columns >= 1) << "a contact sheet of " << columns << " columns";
  int width = 0, picture_height = 0;
  for (const Tile& tile : tiles) {
    width = std::max({width, tile.image.width, TextWidth(tile.caption)});
    picture_height = std::max(picture_height, tile.image.height);
  }
  const int count = static_cast<int>(tiles.size());
  const int used_columns = std::min(columns, count), rows = (count + columns - 1) / columns;
  const int cell_width = width + kGap;
  const int cell_height = picture_height + kCaptionGap + TextHeight() + kGap;
  const int top = kGap + TextHeight(kTitleScale) + kGap;

  Image sheet(kGap + std::max(used_columns * cell_width, TextWidth(title, kTitleScale) + kGap),
              top + rows * cell_height);
  std::fill(sheet.pixels.begin(), sheet.pixels.end(), uint8_t{255});
  Text(sheet, kGap, kGap, title, kBlack, kTitleScale);
  for (int i = 0; i < count; ++i) {
    const Tile& tile = tiles[static_cast<size_t>(i)];
    const int x = kGap + i % columns * cell_width, y = top + i / columns * cell_height;
    Blit(sheet, x, y, tile.image);
    Text(sheet, x, y + picture_height + kCaptionGap, tile.caption, kBlack);
  }
  return sheet;
}

}  // namespace tost::data
