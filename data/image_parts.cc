#include "data/image_parts.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "autograd/base/errors.h"
#include "data/permutation.h"

namespace tost::data {

ImageDataset PicturesOf(std::shared_ptr<const FileTree> tree,
                        const std::vector<LabelledFile>& files) {
  ImageDataset pictures;
  std::vector<int64_t> numbers;
  for (const LabelledFile& file : files) {
    pictures.items.push_back({tree->name(file.file), file.label});
    numbers.push_back(file.file);
  }
  pictures.read = [tree = std::move(tree),
                   numbers = std::make_shared<const std::vector<int64_t>>(std::move(numbers))](
                      int64_t i) -> absl::StatusOr<StoredImage> {
    TOST_ASSIGN_OR_RETURN(std::string bytes, tree->Read((*numbers)[static_cast<size_t>(i)]));
    return bytes;
  };
  return pictures;
}

ImageDataset Subset(const ImageDataset& pictures, std::vector<int64_t> items) {
  ImageDataset subset;
  for (const int64_t i : items) subset.items.push_back(pictures.items[static_cast<size_t>(i)]);
  subset.read = [read = pictures.read,
                 numbers = std::make_shared<const std::vector<int64_t>>(std::move(items))](
                    int64_t i) { return read((*numbers)[static_cast<size_t>(i)]); };
  return subset;
}

ImageDataset Joined(const ImageDataset& first, const ImageDataset& second) {
  ImageDataset joined = first;
  joined.items.insert(joined.items.end(), second.items.begin(), second.items.end());
  joined.read = [size = first.size(), a = first.read, b = second.read](int64_t i) {
    return i < size ? a(i) : b(i - size);
  };
  return joined;
}

std::vector<int64_t> ClassCounts(const ImageDataset& pictures, size_t classes) {
  std::vector<int64_t> counts(classes);
  for (const ImageDataset::Item& item : pictures.items) ++counts[static_cast<size_t>(item.label)];
  return counts;
}

ImageDataset HoldOut(double fraction, uint64_t seed, size_t classes, ImageDataset& train) {
  std::vector<std::vector<int64_t>> of_class(classes);
  for (int64_t i = 0; i < train.size(); ++i) {
    of_class[static_cast<size_t>(train.items[static_cast<size_t>(i)].label)].push_back(i);
  }
  std::vector<char> held(train.items.size());
  for (size_t label = 0; label < classes; ++label) {
    const std::vector<int64_t>& items = of_class[label];
    if (items.empty()) continue;
    const auto size = static_cast<int64_t>(items.size());
    const int64_t count =
        std::min<int64_t>(std::llround(fraction * static_cast<double>(size)), size - 1);
    const Permutation order(size, seed, label);
    for (int64_t i = 0; i < count; ++i) {
      held[static_cast<size_t>(items[static_cast<size_t>(order.At(i))])] = 1;
    }
  }
  std::vector<int64_t> kept, taken;
  for (int64_t i = 0; i < train.size(); ++i) {
    (held[static_cast<size_t>(i)] != 0 ? taken : kept).push_back(i);
  }
  ImageDataset validation = Subset(train, std::move(taken));
  train = Subset(train, std::move(kept));
  return validation;
}

std::string FirstFive(const std::vector<std::string>& names) {
  constexpr size_t kShown = 5;
  const std::string shown =
      absl::StrJoin(std::span(names).first(std::min(names.size(), kShown)), ", ");
  return names.size() <= kShown ? absl::StrCat(names.size(), ": ", shown)
                                : absl::StrCat(names.size(), ", the first five: ", shown);
}

}  // namespace tost::data
