// From a text file to a folder of token files by a character vocabulary.
#ifndef TOST_DATA_PREPARE_CHARACTERS_H_
#define TOST_DATA_PREPARE_CHARACTERS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace tost::data {

struct PrepareCharactersOptions {
  std::string text;                  // path of a UTF-8 text
  std::string folder;                // made when absent
  double validation_fraction = 0.1;  // of the characters, cut off at the end
  bool overwrite = false;
};

struct PreparedCharacters {
  int64_t train_tokens = 0;
  int64_t validation_tokens = 0;
  int64_t vocabulary = 0;
};

// Writes train.bin, val.bin and vocabulary.json. With n characters, the first
// floor(n · (1 − validation_fraction)) are for training, as in nanoGPT's prepare.py. The text is
// read twice, in pieces. An empty text or an empty split is an error. The three files get their
// names only when all are on the disk; an error before that changes nothing.
absl::StatusOr<PreparedCharacters> PrepareCharacters(const PrepareCharactersOptions& options);

}  // namespace tost::data

#endif  // TOST_DATA_PREPARE_CHARACTERS_H_
