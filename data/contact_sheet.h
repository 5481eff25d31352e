// Many small pictures on one large one, to look at what a data set or an augmentation gives.
#ifndef TOST_DATA_CONTACT_SHEET_H_
#define TOST_DATA_CONTACT_SHEET_H_

#include <span>
#include <string>

#include "absl/strings/string_view.h"
#include "data/image.h"

namespace tost::data {

struct Tile {
  Image image;
  std::string caption;
};

// Row by row, `columns` to a row, on white, each over its caption; the title is above all of them.
// Every cell is as large as the largest picture and the longest caption need. CHECKs columns >= 1.
Image ContactSheet(std::span<const Tile> tiles, int columns, absl::string_view title);

}  // namespace tost::data

#endif  // TOST_DATA_CONTACT_SHEET_H_
