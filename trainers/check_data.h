// `tost data check`: reads and decodes every picture of a data set.
#ifndef TOST_TRAINERS_CHECK_DATA_H_
#define TOST_TRAINERS_CHECK_DATA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/image_sets.h"

namespace tost::train {

// One part of a set.
struct CheckedPart {
  std::string name;  // "training"
  int64_t pictures = 0;
  int64_t classes = 0;          // that occur
  int64_t least = 0, most = 0;  // pictures of a class, of those that occur
  int64_t decoded = 0;
  int smallest_width = 0, smallest_height = 0;  // the picture with the fewest pixels
  int largest_width = 0, largest_height = 0;    // the one with the most
  std::vector<std::string> bad;  // name and reason of each picture that cannot be decoded
};

struct DataCheck {
  std::vector<CheckedPart> parts;
  // Pairs of pictures with the same pixels, "a = b"; in each of them the first of its kind and a
  // later one.
  std::vector<std::string> shared;      // between the training or validation and the test part
  std::vector<std::string> repeated;    // within one part, or in training and validation
  std::vector<std::string> relabelled;  // those of the above whose labels differ
};

// Decodes all pictures on all threads. Cancelled when a signal asks the program to end.
absl::StatusOr<DataCheck> CheckImages(const data::ImageSets& sets);

// Opens, checks and prints: the set's notes and progress to the log; the table, and a line for each
// finding, to standard output. An error when a picture cannot be decoded; copies are no error,
// since official sets have some.
absl::Status CheckData(const data::ImageSetOptions& options);

}  // namespace tost::train

#endif  // TOST_TRAINERS_CHECK_DATA_H_
