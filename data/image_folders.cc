#include "data/image_folders.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "autograd/base/errors.h"

namespace tost::data {
namespace {

enum Split : size_t { kTrain, kValidation, kTest };
constexpr size_t kSplits = 3;

std::optional<Split> SplitOfFolder(absl::string_view folder) {
  if (folder == "train") return kTrain;
  if (folder == "val" || folder == "validation" || folder == "valid") return kValidation;
  if (folder == "test") return kTest;
  return std::nullopt;
}

std::optional<Split> SplitOfArchive(absl::string_view path) {
  const std::string name = absl::AsciiStrToLower(FileTree::LastPart(path));
  if (absl::StrContains(name, "train")) return kTrain;
  if (absl::StrContains(name, "val")) return kValidation;
  if (absl::StrContains(name, "test")) return kTest;
  return std::nullopt;
}

// A path below a split: "train" of "a/train/tench/1.jpg" has root "a", class "tench".
struct Place {
  Split split = kTrain;
  absl::string_view root;
  absl::string_view label;  // empty: the file lies in no class folder
};

// The class folder and the file of what lies below a split; `below` has no leading slash.
absl::string_view ClassOf(absl::string_view below) {
  const size_t slash = below.find('/');
  return slash == below.npos ? absl::string_view() : below.substr(0, slash);
}

std::optional<Place> PlaceOf(absl::string_view name) {
  for (size_t begin = 0; begin < name.size();) {
    const size_t slash = name.find('/', begin);
    if (slash == name.npos) return std::nullopt;
    if (const auto split = SplitOfFolder(name.substr(begin, slash - begin))) {
      return Place{*split, name.substr(0, begin), ClassOf(name.substr(slash + 1))};
    }
    begin = slash + 1;
  }
  return std::nullopt;
}

std::optional<Place> PlaceOf(const FileTree& tree, int64_t file) {
  if (const auto place = PlaceOf(tree.name(file))) return place;
  const auto split = SplitOfArchive(tree.source_path(file));
  if (!split || !tree.in_archive(file)) return std::nullopt;
  return Place{*split, "", ClassOf(tree.name(file))};
}

bool IsPicture(absl::string_view name) {
  static constexpr absl::string_view kSuffixes[] = {".jpeg", ".jpg", ".png", ".gif",  ".bmp",
                                                    ".ppm",  ".pgm", ".tif", ".tiff", ".webp"};
  return std::any_of(std::begin(kSuffixes), std::end(kSuffixes), [&](absl::string_view suffix) {
    return absl::EndsWithIgnoreCase(name, suffix);
  });
}

// What lies in one split.
struct SplitFolder {
  std::string where;                                     // for errors
  std::map<std::string, std::vector<int64_t>> of_class;  // pictures; of a class folder perhaps none
  std::vector<int64_t> outside;                          // pictures in no class folder
};

class Sorter {
 public:
  explicit Sorter(std::shared_ptr<const FileTree> tree) : tree_(std::move(tree)) {}

  absl::Status Sort() {
    for (int64_t i = 0; i < tree_->size(); ++i) {
      const std::optional<Place> place = PlaceOf(*tree_, i);
      if (!place) {
        ignored_.Add(tree_->name(i));
        continue;
      }
      TOST_RETURN_IF_ERROR(Add(*place, i));
    }
    for (const std::string& folder : tree_->empty_folders()) {
      const std::string inside = absl::StrCat(folder, "/");
      const std::optional<Place> place = PlaceOf(inside);
      if (place && !place->label.empty()) {
        splits_[place->split].of_class.try_emplace(std::string(place->label));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<ImageParts> Parts() {
    SplitFolder& train = splits_[kTrain];
    if (train.of_class.empty() && train.outside.empty()) {
      return absl::NotFoundError(
          absl::StrCat(tree_->description(),
                       ": there is no train/CLASS/PICTURE; a tree of class folders has "
                       "train and val, and in them a folder for each class"));
    }
    SplitFolder& test = splits_[kTest];
    if (test.of_class.empty()) {
      for (const int64_t i : test.outside) ignored_.Add(tree_->name(i));
      test.outside.clear();
    }
    ImageParts parts;
    std::map<std::string, int32_t> labels;
    for (const auto& [name, pictures] : train.of_class) {
      labels.emplace(name, static_cast<int32_t>(labels.size()));
      parts.classes.push_back(name);
    }
    TOST_ASSIGN_OR_RETURN(parts.train, PartOf(train, labels));
    TOST_ASSIGN_OR_RETURN(parts.validation, PartOf(splits_[kValidation], labels));
    TOST_ASSIGN_OR_RETURN(parts.test, PartOf(test, labels));
    if (ignored_.count > 0) {
      parts.notes.push_back(absl::StrCat(ignored_.count, " other files ignored (", ignored_.first,
                                         ignored_.count > 1 ? " and others)" : ")"));
    }
    return parts;
  }

 private:
  absl::Status Add(const Place& place, int64_t file) {
    SplitFolder& split = splits_[place.split];
    const bool picture = IsPicture(tree_->name(file));
    if (!picture) ignored_.Add(tree_->name(file));
    if (place.label.empty()) {
      if (picture) split.outside.push_back(file);
      return absl::OkStatus();
    }
    // A class folder counts even when nothing in it is a picture.
    std::vector<int64_t>& pictures = split.of_class[std::string(place.label)];
    if (!picture) return absl::OkStatus();
    pictures.push_back(file);
    const std::string where = tree_->in_archive(file) && place.root.empty()
                                  ? tree_->source_path(file)
                                  : absl::StrCat(tree_->source_path(file), "/", place.root);
    if (split.where.empty()) split.where = where;
    if (split.where == where) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(tree_->description(),
                                                   ": two trees of class folders, in ", split.where,
                                                   " and in ", where, "; give the folder of one"));
  }

  absl::StatusOr<ImageDataset> PartOf(const SplitFolder& split,
                                      const std::map<std::string, int32_t>& labels) const {
    if (!split.outside.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          tree_->Where(split.outside[0]), " lies in no class folder (1 of ", split.outside.size(),
          " such pictures), so its class is not known; sort the "
          "pictures into a folder for each class"));
    }
    std::vector<LabelledFile> files;
    for (const auto& [name, pictures] : split.of_class) {
      const auto label = labels.find(name);
      if (label == labels.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat(tree_->description(), ": class ", name, " of ",
                         pictures.empty() ? "val or test" : tree_->name(pictures[0]),
                         " is none of the classes of train"));
      }
      if (pictures.empty()) {
        return absl::InvalidArgumentError(
            absl::StrCat(tree_->description(), ": class ", name,
                         " has no picture; remove its folder or put its pictures there"));
      }
      for (const int64_t file : pictures) files.push_back({file, label->second});
    }
    return PicturesOf(tree_, files);
  }

  std::shared_ptr<const FileTree> tree_;
  std::array<SplitFolder, kSplits> splits_;
  SkippedFiles ignored_;
};

}  // namespace

bool LooksLikeImageFolders(const FileTree& tree) {
  for (int64_t i = 0; i < tree.size(); ++i) {
    const std::optional<Place> place = PlaceOf(tree, i);
    if (place && place->split == kTrain && !place->label.empty()) return true;
  }
  return false;
}

absl::StatusOr<ImageParts> OpenImageFolders(const std::shared_ptr<const FileTree>& tree) {
  Sorter sorter(tree);
  TOST_RETURN_IF_ERROR(sorter.Sort());
  return sorter.Parts();
}

}  // namespace tost::data
