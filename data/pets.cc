#include "data/pets.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "autograd/base/errors.h"

namespace tost::data {
namespace {

constexpr int kClasses = 37;
constexpr char kTrainList[] = "trainval.txt";
constexpr char kTestList[] = "test.txt";

bool IsPlainName(absl::string_view name) {
  for (const char c : name) {
    if (c == '/' || c == '\\' || !absl::ascii_isprint(static_cast<unsigned char>(c))) return false;
  }
  return !name.empty() && name[0] != '.';
}

absl::StatusOr<PetsRow> ParseRow(absl::string_view line) {
  const std::vector<absl::string_view> fields =
      absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  if (fields.size() != 4) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", fields.size(), " fields instead of NAME CLASS SPECIES BREED"));
  }
  if (!IsPlainName(fields[0])) {
    return absl::InvalidArgumentError("has a picture name that is no plain file name");
  }
  int numbers[3];
  for (size_t i = 0; i < 3; ++i) {
    if (!absl::SimpleAtoi(fields[i + 1], &numbers[i])) {
      return absl::InvalidArgumentError(
          absl::StrCat("has \"", absl::CHexEscape(fields[i + 1]), "\" where a number should be"));
    }
  }
  const auto [label, species, breed] = numbers;
  if (label < 1 || label > kClasses) {
    return absl::InvalidArgumentError(
        absl::StrCat("has class ", label, ", but classes are 1 ... ", kClasses));
  }
  if (species < 1 || species > 2 || breed < 1) {
    return absl::InvalidArgumentError(absl::StrCat("has species ", species, " and breed ", breed,
                                                   ", but species are 1 and 2, breeds from 1 on"));
  }
  return PetsRow{std::string(fields[0]), label - 1};
}

// "Egyptian_Mau_14" as "Egyptian_Mau".
std::string ClassNameOf(absl::string_view picture) {
  const size_t end = picture.rfind('_');
  return std::string(picture.substr(0, end));
}

// Finds the pictures of the lists and checks that lists and pictures belong together.
class ListReader {
 public:
  explicit ListReader(std::shared_ptr<const FileTree> tree)
      : tree_(std::move(tree)), classes_(kClasses) {
    for (int64_t i = 0; i < tree_->size(); ++i) {
      files_.emplace(FileTree::LastPart(tree_->name(i)), i);
    }
  }

  absl::StatusOr<ImageDataset> Read(absl::string_view list) {
    TOST_ASSIGN_OR_RETURN(const int64_t file, tree_->Find(list));
    TOST_ASSIGN_OR_RETURN(const std::string text, tree_->Read(file));
    const std::string where = tree_->Where(file);
    TOST_ASSIGN_OR_RETURN(const std::vector<PetsRow> rows, ReadPetsList(text, where));
    std::vector<LabelledFile> pictures;
    for (const PetsRow& row : rows) {
      TOST_RETURN_IF_ERROR(Check(row, where));
      const auto found = files_.find(absl::StrCat(row.name, ".jpg"));
      if (found == files_.end()) {
        absent_.push_back(absl::StrCat("images/", row.name, ".jpg"));
      } else {
        pictures.push_back({found->second, row.label});
      }
    }
    return PicturesOf(tree_, pictures);
  }

  const std::vector<std::string>& absent() const { return absent_; }

  std::vector<std::string> ClassNames() const {
    std::vector<std::string> names = classes_;
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i].empty()) names[i] = absl::StrCat("class ", i + 1);
    }
    return names;
  }

 private:
  absl::Status Check(const PetsRow& row, absl::string_view where) {
    if (!seen_.insert(row.name).second) {
      return absl::DataLossError(absl::StrCat(where, ": ", row.name,
                                              " is named a second time; every picture belongs to "
                                              "one split, so use the authors' lists"));
    }
    std::string& name = classes_[static_cast<size_t>(row.label)];
    const std::string own = ClassNameOf(row.name);
    if (name.empty()) name = own;
    if (name != own) {
      return absl::DataLossError(absl::StrCat(where, ": class ", row.label + 1, " of ", row.name,
                                              " is that of ", name,
                                              "; the list is damaged, use the authors' one"));
    }
    return absl::OkStatus();
  }

  std::shared_ptr<const FileTree> tree_;
  absl::flat_hash_map<std::string, int64_t> files_;  // by the last parts of their names
  absl::flat_hash_set<std::string> seen_;
  std::vector<std::string> classes_;
  std::vector<std::string> absent_;
};

}  // namespace

absl::StatusOr<std::vector<PetsRow>> ReadPetsList(absl::string_view text, absl::string_view where) {
  std::vector<PetsRow> rows;
  int64_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#') continue;
    absl::StatusOr<PetsRow> row = ParseRow(line);
    if (!row.ok()) {
      return absl::DataLossError(absl::StrCat(where, ": line ", number, " ", row.status().message(),
                                              "; use the authors' list"));
    }
    rows.push_back(*std::move(row));
  }
  if (rows.empty()) {
    return absl::DataLossError(absl::StrCat(where, " names no picture; use the authors' list"));
  }
  return rows;
}

bool LooksLikePets(const FileTree& tree) {
  return !tree.Called(kTrainList).empty() && !tree.Called(kTestList).empty();
}

absl::StatusOr<ImageParts> OpenPets(const std::shared_ptr<const FileTree>& tree) {
  ListReader reader(tree);
  ImageParts parts;
  TOST_ASSIGN_OR_RETURN(parts.train, reader.Read(kTrainList));
  TOST_ASSIGN_OR_RETURN(parts.test, reader.Read(kTestList));
  if (!reader.absent().empty()) {
    return absl::NotFoundError(
        absl::StrCat(tree->description(), ": pictures of the lists that are not there: ",
                     FirstFive(reader.absent()), "; give images.tar.gz too, or unpack it again"));
  }
  parts.classes = reader.ClassNames();
  return parts;
}

}  // namespace tost::data
