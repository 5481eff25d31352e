#include "data/text_split.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "autograd/base/philox.h"
#include "data/utf8.h"

namespace tost::data {
namespace {

// A number of few digits in (low, high].
double ShortNumberBetween(double low, double high) {
  for (double scale = 100; scale < 1e15; scale *= 10) {
    const double candidate = (std::floor(low * scale) + 1) / scale;
    if (candidate > low && candidate <= high) return candidate;
  }
  return high;
}

}  // namespace

size_t DocumentSplit::TrainingBytes(const TextPiece& piece) {
  if (piece.offset == 0) {
    const uint32_t word = RandomWords(RandomKey{.seed = seed_}, documents_++, 0).word[0];
    const double draw = static_cast<double>(word) / 4294967296.0;
    smallest_ = std::min(smallest_, draw);
    largest_ = std::max(largest_, draw);
    in_validation_ = draw < fraction_;
    validation_ += in_validation_ ? 1 : 0;
  }
  return in_validation_ ? 0 : piece.text.size();
}

absl::Status DocumentSplit::CheckBothSides(absl::string_view inputs) const {
  if (validation_ > 0 && validation_ < documents_) return absl::OkStatus();
  const std::string way_out =
      smallest_ < largest_
          ? absl::StrFormat("--validation_fraction %.15g gives both some",
                            ShortNumberBetween(smallest_, largest_))
          : std::string("give more documents, or cut the text itself with --split tail");
  return absl::InvalidArgumentError(
      absl::StrCat(inputs, ": ", documents_, " documents with a validation fraction of ", fraction_,
                   " and seed ", seed_, " leave ", documents_ - validation_, " for training and ",
                   validation_, " for validation; ", way_out));
}

size_t TailSplit::TrainingBytes(const TextPiece& piece) {
  const TextFront front = FirstCharacters(piece.text, left_);
  left_ -= front.characters;
  return front.bytes;
}

absl::Status TailSplit::CheckBothSides(absl::string_view inputs) const {
  if (train_ > 0 && train_ < characters_) return absl::OkStatus();
  const int64_t half = characters_ / 2;
  const std::string way_out = half > 0 ? absl::StrCat("--validation_fraction 0.5 leaves ", half,
                                                      " and ", characters_ - half)
                                       : std::string("use a longer text");
  return absl::InvalidArgumentError(absl::StrCat(
      inputs, ": ", characters_, " characters with a validation fraction of ", fraction_, " leave ",
      train_, " for training and ", characters_ - train_, " for validation; ", way_out));
}

TextFront FirstCharacters(absl::string_view text, int64_t limit) {
  TextFront front{0, 0};
  while (front.bytes < text.size() && front.characters < limit) {
    const size_t length = FirstCodePoint(text.substr(front.bytes)).first;
    front.bytes += std::max<size_t>(length, 1);
    ++front.characters;
  }
  return front;
}

}  // namespace tost::data
