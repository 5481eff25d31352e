// Which part of a corpus is for training and which for validation.
#ifndef TOST_DATA_TEXT_SPLIT_H_
#define TOST_DATA_TEXT_SPLIT_H_

#include <cstdint>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "data/corpus.h"

namespace tost::data {

// A document goes as a whole to one side, by a draw that its number and the seed decide: documents
// added at the end change nothing for those before them.
class DocumentSplit {
 public:
  DocumentSplit(double validation_fraction, uint64_t seed)
      : fraction_(validation_fraction), seed_(seed) {}

  // How many bytes of the corpus's next piece are for training; the rest is for validation.
  size_t TrainingBytes(const TextPiece& piece);
  // An error that gives the numbers, and a fraction that would do, when one side has no document.
  absl::Status CheckBothSides(absl::string_view inputs) const;

 private:
  double fraction_;
  uint64_t seed_;
  bool in_validation_ = false;  // the present document
  int64_t documents_ = 0;
  int64_t validation_ = 0;
  // The extremes of the draws, all of which lie in [0, 1).
  double smallest_ = 1;
  double largest_ = 0;
};

// Of n characters the first floor(n · (1 − validation_fraction)) are for training.
class TailSplit {
 public:
  TailSplit(double validation_fraction, int64_t characters)
      : fraction_(validation_fraction),
        characters_(characters),
        train_(static_cast<int64_t>(static_cast<double>(characters) * (1 - validation_fraction))),
        left_(train_) {}

  size_t TrainingBytes(const TextPiece& piece);
  // An error that gives the numbers, and a fraction that would do, when one side is empty.
  absl::Status CheckBothSides(absl::string_view inputs) const;

 private:
  double fraction_;
  int64_t characters_;
  int64_t train_;
  int64_t left_;  // of train_, in the pieces to come
};

using TextSplit = std::variant<DocumentSplit, TailSplit>;

struct TextFront {
  size_t bytes;
  int64_t characters;
};
// The first `limit` characters of a text, or all of it. A byte that belongs to no UTF-8 character
// counts as one.
TextFront FirstCharacters(absl::string_view text, int64_t limit);

}  // namespace tost::data

#endif  // TOST_DATA_TEXT_SPLIT_H_
