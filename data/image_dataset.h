// Labelled pictures of the sets that image classifiers are trained on, in the files in which these
// sets are distributed: CIFAR-10 and CIFAR-100 (binary version), Oxford Flowers-102, Oxford-IIIT
// Pet, and trees with a folder for each class (ImageNet).
#ifndef TOST_DATA_IMAGE_DATASET_H_
#define TOST_DATA_IMAGE_DATASET_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/image.h"

namespace tost::data {

// The pictures of one split, by number. Cheap to copy; Read may be called from several threads.
struct ImageDataset {
  struct Item {
    std::string name;  // "jpg/image_00001.jpg", "data_batch_1.bin record 12"
    int32_t label = 0;
  };
  std::vector<Item> items;
  // Item i's picture, not decoded. A file that cannot be read is an error that names it.
  std::function<absl::StatusOr<StoredImage>(int64_t i)> read;

  int64_t size() const { return static_cast<int64_t>(items.size()); }
};

}  // namespace tost::data

#endif  // TOST_DATA_IMAGE_DATASET_H_
