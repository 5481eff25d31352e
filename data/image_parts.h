// The parts of a data set as its distributor made them, and parts taken out of parts.
#ifndef TOST_DATA_IMAGE_PARTS_H_
#define TOST_DATA_IMAGE_PARTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/file_tree.h"
#include "data/image_dataset.h"

namespace tost::data {

// What a reader of one of the formats finds. A part that the distribution does not have is empty.
struct ImageParts {
  std::vector<std::string> classes;  // names; a label is a place in it
  ImageDataset train;
  ImageDataset validation;
  ImageDataset test;
  std::vector<std::string> notes;  // lines for the log
};

// A picture file of the tree and its label.
struct LabelledFile {
  int64_t file = 0;
  int32_t label = 0;
};

// Pictures that are files, called as they are in the tree.
ImageDataset PicturesOf(std::shared_ptr<const FileTree> tree,
                        const std::vector<LabelledFile>& files);

// The given items, in the given order.
ImageDataset Subset(const ImageDataset& pictures, std::vector<int64_t> items);

// The items of both.
ImageDataset Joined(const ImageDataset& first, const ImageDataset& second);

// Pictures of each label, for labels in [0, classes).
std::vector<int64_t> ClassCounts(const ImageDataset& pictures, size_t classes);

// Takes round(fraction · n) of each class's n pictures, but never all, out of `train` and gives
// them back; both keep their order. Which ones depends on the seed, the class and n alone.
ImageDataset HoldOut(double fraction, uint64_t seed, size_t classes, ImageDataset& train);

// "2: a, b", "12, the first five: a, b, c, d, e": lists in messages of one line.
std::string FirstFive(const std::vector<std::string>& names);

}  // namespace tost::data

#endif  // TOST_DATA_IMAGE_PARTS_H_
