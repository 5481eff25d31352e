#include "data/flowers102.h"

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "autograd/base/errors.h"
#include "data/mat_file.h"

namespace tost::data {
namespace {

constexpr int kClasses = 102;
constexpr char kLabelsFile[] = "imagelabels.mat";
constexpr char kSplitsFile[] = "setid.mat";

struct Split {
  const char* variable;
  ImageDataset ImageParts::*part;
};
constexpr Split kSplits[] = {{"trnid", &ImageParts::train},
                             {"valid", &ImageParts::validation},
                             {"tstid", &ImageParts::test}};

// A .mat file of the tree.
struct MatFile {
  static absl::StatusOr<MatFile> Open(const FileTree& tree, absl::string_view name) {
    MatFile file;
    TOST_ASSIGN_OR_RETURN(const int64_t found, tree.Find(name));
    TOST_ASSIGN_OR_RETURN(file.bytes, tree.Read(found));
    file.where = tree.Where(found);
    return file;
  }
  absl::StatusOr<std::vector<int64_t>> Integers(const std::string& variable) const {
    return ReadMatIntegers(bytes, where, variable);
  }

  std::string bytes;
  std::string where;
};

absl::StatusOr<std::vector<int64_t>> ReadLabels(const FileTree& tree) {
  TOST_ASSIGN_OR_RETURN(const MatFile file, MatFile::Open(tree, kLabelsFile));
  TOST_ASSIGN_OR_RETURN(const std::vector<int64_t> labels, file.Integers("labels"));
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] >= 1 && labels[i] <= kClasses) continue;
    return absl::DataLossError(absl::StrCat(file.where, ": picture ", i + 1, " has label ",
                                            labels[i], ", but labels must lie in 1 ... ", kClasses,
                                            "; download it again"));
  }
  return labels;
}

// Files by the last parts of their names.
absl::flat_hash_map<std::string, int64_t> FilesByName(const FileTree& tree) {
  absl::flat_hash_map<std::string, int64_t> files;
  for (int64_t i = 0; i < tree.size(); ++i) files.emplace(FileTree::LastPart(tree.name(i)), i);
  return files;
}

// Goes through the splits and finds their pictures.
class SplitReader {
 public:
  SplitReader(std::shared_ptr<const FileTree> tree, std::vector<int64_t> labels)
      : tree_(std::move(tree)),
        labels_(std::move(labels)),
        files_(FilesByName(*tree_)),
        split_of_(labels_.size()) {}

  absl::StatusOr<ImageDataset> Read(const MatFile& file, const char* variable) {
    TOST_ASSIGN_OR_RETURN(const std::vector<int64_t> numbers, file.Integers(variable));
    std::vector<LabelledFile> pictures;
    for (const int64_t number : numbers) {
      TOST_RETURN_IF_ERROR(CheckNumber(file, variable, number));
      const std::string name = absl::StrFormat("image_%05d.jpg", number);
      const auto found = files_.find(name);
      if (found == files_.end()) {
        absent_.push_back(absl::StrCat("jpg/", name));
        continue;
      }
      const int64_t label = labels_[static_cast<size_t>(number - 1)] - 1;
      pictures.push_back({found->second, static_cast<int32_t>(label)});
    }
    return PicturesOf(tree_, pictures);
  }

  const std::vector<std::string>& absent() const { return absent_; }

 private:
  absl::Status CheckNumber(const MatFile& file, const char* variable, int64_t number) {
    if (number < 1 || number > static_cast<int64_t>(labels_.size())) {
      return absl::DataLossError(absl::StrCat(file.where, ": ", variable, " names picture ", number,
                                              ", but pictures are numbered 1 ... ", labels_.size(),
                                              " (", kLabelsFile, "); download it again"));
    }
    const char*& split = split_of_[static_cast<size_t>(number - 1)];
    if (split != nullptr) {
      return absl::DataLossError(absl::StrCat(file.where, ": picture ", number, " is in ", split,
                                              " and in ", variable,
                                              "; splits must not overlap, use the authors' file"));
    }
    split = variable;
    return absl::OkStatus();
  }

  std::shared_ptr<const FileTree> tree_;
  std::vector<int64_t> labels_;
  absl::flat_hash_map<std::string, int64_t> files_;
  std::vector<const char*> split_of_;  // null: in none yet
  std::vector<std::string> absent_;
};

}  // namespace

bool LooksLikeFlowers102(const FileTree& tree) {
  return !tree.Called(kLabelsFile).empty() || !tree.Called(kSplitsFile).empty();
}

absl::StatusOr<ImageParts> OpenFlowers102(const std::shared_ptr<const FileTree>& tree,
                                          bool present_only) {
  TOST_ASSIGN_OR_RETURN(std::vector<int64_t> labels, ReadLabels(*tree));
  TOST_ASSIGN_OR_RETURN(const MatFile splits, MatFile::Open(*tree, kSplitsFile));
  SplitReader reader(tree, std::move(labels));
  ImageParts parts;
  for (int k = 1; k <= kClasses; ++k) parts.classes.push_back(absl::StrCat(k));
  for (const Split& split : kSplits) {
    TOST_ASSIGN_OR_RETURN(parts.*split.part, reader.Read(splits, split.variable));
  }
  if (reader.absent().empty()) return parts;
  const std::string absent = absl::StrCat(tree->description(), ": pictures of ", kSplitsFile,
                                          " that are not there: ", FirstFive(reader.absent()));
  if (!present_only) {
    return absl::NotFoundError(absl::StrCat(
        absent, "; give 102flowers.tgz too, or --any_sizes to do without these pictures"));
  }
  parts.notes.push_back(absl::StrCat("warning: ", absent));
  return parts;
}

}  // namespace tost::data
