// Oxford-IIIT Pet (Parkhi et al., 2012): images/NAME.jpg, and the lists annotations/trainval.txt
// and test.txt of lines "NAME class species breed", class 1 … 37.
#ifndef TOST_DATA_PETS_H_
#define TOST_DATA_PETS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/file_tree.h"
#include "data/image_parts.h"

namespace tost::data {

struct PetsRow {
  std::string name;
  int32_t label = 0;  // class − 1
};

// The rows of a list with content `text`; lines that begin with # are comments. Errors name the
// list, called `where`, and the line: not four fields, no number, a class outside 1 … 37, a species
// that is neither cat (1) nor dog (2), a name that is no plain file name. A list without a row is
// an error.
absl::StatusOr<std::vector<PetsRow>> ReadPetsList(absl::string_view text, absl::string_view where);

bool LooksLikePets(const FileTree& tree);  // trainval.txt and test.txt

// Training (trainval.txt) and test part. Classes are called as their pictures are, without the
// number. Other errors than those of the lists: a picture named twice, a class with two names,
// pictures that are not there, counted and the first five named.
absl::StatusOr<ImageParts> OpenPets(const std::shared_ptr<const FileTree>& tree);

}  // namespace tost::data

#endif  // TOST_DATA_PETS_H_
