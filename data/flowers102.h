// Oxford Flowers-102 (Nilsback and Zisserman, 2008): jpg/image_00001.jpg … image_08189.jpg, their
// labels 1 … 102 in imagelabels.mat, and the numbers of the pictures of each split in setid.mat.
#ifndef TOST_DATA_FLOWERS102_H_
#define TOST_DATA_FLOWERS102_H_

#include <memory>

#include "absl/status/statusor.h"
#include "data/file_tree.h"
#include "data/image_parts.h"

namespace tost::data {

bool LooksLikeFlowers102(const FileTree& tree);  // imagelabels.mat, setid.mat

// The authors' splits: trnid, valid and tstid. Label k of the file is class k − 1, called "k".
// Errors: a .mat file that cannot be read; labels outside 1 … 102 and picture numbers that have no
// label, with their place; a picture in two splits; pictures that are not there, counted and the
// first five named. With `present_only` the latter are left out, which a note says.
absl::StatusOr<ImageParts> OpenFlowers102(const std::shared_ptr<const FileTree>& tree,
                                          bool present_only);

}  // namespace tost::data

#endif  // TOST_DATA_FLOWERS102_H_
