// Drawing on a picture: enough for contact sheets and confusion matrices. What lies outside the
// canvas is left out.
#ifndef TOST_DATA_DRAW_H_
#define TOST_DATA_DRAW_H_

#include "absl/strings/string_view.h"
#include "data/image.h"
#include "data/image_ops.h"

namespace tost::data {

inline constexpr Color kBlack = {0, 0, 0};
inline constexpr Color kWhite = {255, 255, 255};

void FillRectangle(Image& canvas, const Region& region, const Color& color);

// The picture, its upper left corner at (x, y).
void Blit(Image& canvas, int x, int y, const Image& picture);

// One line of printable ASCII in a font of 5 x 7 dots, each scale x scale pixels, one dot apart;
// (x, y) is its upper left corner. Every other character of UTF-8 is shown as a question mark.
void Text(Image& canvas, int x, int y, absl::string_view text, const Color& color, int scale = 1);
int TextWidth(absl::string_view text, int scale = 1);
inline int TextHeight(int scale = 1) { return 7 * scale; }

// Of a value in [0, 1]: from dark violet through green to yellow, ever lighter (after Matplotlib's
// viridis). Values beyond are moved to the nearer end; NaN is 0.
Color HeatColor(double value);

}  // namespace tost::data

#endif  // TOST_DATA_DRAW_H_
