// Trees with a folder for each class: train/CLASS/…, val/CLASS/…, test/CLASS/…, as ImageNet's.
#ifndef TOST_DATA_IMAGE_FOLDERS_H_
#define TOST_DATA_IMAGE_FOLDERS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "data/file_tree.h"
#include "data/image_parts.h"

namespace tost::data {

// Whether there is a training part.
bool LooksLikeImageFolders(const FileTree& tree);

// The splits are the folders train; val, validation or valid; and test, at any depth. In an archive
// without such folders its own name says the split, and its folders are the classes:
// ILSVRC2012_img_train.tar. Classes are numbered by the sorted names of train's folders. What is no
// picture by its name's suffix is ignored and counted; a test folder with pictures but without
// class folders, which has no labels, likewise. Errors: no training part, or two; a class without a
// picture; pictures of train or val outside class folders; a class that train does not have.
absl::StatusOr<ImageParts> OpenImageFolders(const std::shared_ptr<const FileTree>& tree);

}  // namespace tost::data

#endif  // TOST_DATA_IMAGE_FOLDERS_H_
