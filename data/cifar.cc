#include "data/cifar.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "autograd/base/errors.h"

namespace tost::data {
namespace {

constexpr size_t kPlane = kCifarSide * kCifarSide;
// Records read at a time.
constexpr int64_t kRecordsPerRead = 1024;

struct Layout {
  const char* set;
  const char* format;  // what --format calls it
  int64_t record;
  size_t label_at;  // in the record
  int classes;
  const char* names_file;
};

const Layout& LayoutOf(CifarLabels labels) {
  static constexpr Layout kLayouts[] = {
      {"CIFAR-10", "cifar10", kCifar10Record, 0, 10, "batches.meta.txt"},
      {"CIFAR-100", "cifar100", kCifar100Record, 1, 100, "fine_label_names.txt"},
      {"CIFAR-100", "cifar100", kCifar100Record, 0, 20, "coarse_label_names.txt"}};
  return kLayouts[static_cast<size_t>(labels)];
}

constexpr size_t kFineClasses = 100;
constexpr int kCoarseClasses = 20;
// The coarse label of each fine one.
constexpr std::array<uint8_t, kFineClasses> kCoarseOfFine = {
    4,  1,  14, 8,  0,  6,  7,  7,  18, 3,  3,  14, 9,  18, 7,  11, 3,  9,  7,  11,
    6,  11, 5,  10, 7,  6,  13, 15, 3,  15, 0,  11, 1,  10, 12, 14, 16, 9,  11, 5,
    5,  19, 8,  8,  15, 13, 14, 17, 18, 10, 16, 4,  17, 4,  2,  0,  17, 4,  18, 17,
    10, 3,  2,  12, 12, 16, 12, 1,  9,  19, 2,  10, 0,  1,  16, 12, 9,  13, 15, 13,
    16, 19, 2,  4,  6,  19, 5,  5,  8,  19, 18, 1,  2,  15, 6,  0,  17, 8,  14, 13};

std::vector<int64_t> Cifar10Batches(const FileTree& tree) {
  std::vector<int64_t> found;
  for (int64_t i = 0; i < tree.size(); ++i) {
    const absl::string_view name = FileTree::LastPart(tree.name(i));
    if (absl::StartsWith(name, "data_batch_") && absl::EndsWith(name, ".bin")) found.push_back(i);
  }
  return found;
}

struct Batches {
  std::vector<int64_t> train;
  int64_t test = 0;
};

absl::Status OtherSet(const FileTree& tree, const Layout& layout, absl::string_view file,
                      absl::string_view is, absl::string_view format) {
  return absl::InvalidArgumentError(absl::StrCat(tree.description(), " is no ", layout.set,
                                                 " but looks like ", is, ", for it holds ", file,
                                                 "; use --format ", format));
}

absl::StatusOr<Batches> FindBatches(const FileTree& tree, const Layout& layout, bool cifar10) {
  if (cifar10 && !LooksLikeCifar10(tree) && LooksLikeCifar100(tree)) {
    return OtherSet(tree, layout, "train.bin", "CIFAR-100", "cifar100");
  }
  if (!cifar10 && !LooksLikeCifar100(tree) && LooksLikeCifar10(tree)) {
    return OtherSet(tree, layout, "data_batch_1.bin", "CIFAR-10", "cifar10");
  }
  if (!tree.Called("data_batch_1").empty() || !tree.Called("meta").empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(tree.description(), " is the Python version of ", layout.set,
                     "; download the binary version, whose files end in .bin"));
  }
  Batches batches;
  if (cifar10) {
    batches.train = Cifar10Batches(tree);
    if (batches.train.empty()) {
      return absl::NotFoundError(
          absl::StrCat(tree.description(), ": there is no file called data_batch_1.bin"));
    }
    for (size_t i = 1; i < batches.train.size(); ++i) {
      TOST_RETURN_IF_ERROR(
          tree.Find(FileTree::LastPart(tree.name(batches.train[i]))).status());  // is unique
    }
  } else {
    TOST_ASSIGN_OR_RETURN(const int64_t train, tree.Find("train.bin"));
    batches.train.push_back(train);
  }
  TOST_ASSIGN_OR_RETURN(batches.test, tree.Find(cifar10 ? "test_batch.bin" : "test.bin"));
  return batches;
}

absl::StatusOr<int64_t> RecordsOf(const FileTree& tree, int64_t file, const Layout& layout) {
  TOST_ASSIGN_OR_RETURN(const int64_t bytes, tree.Bytes(file));
  const std::string where = tree.Where(file);
  if (bytes == 0) return absl::DataLossError(absl::StrCat(where, " is empty"));
  const int64_t rest = bytes % layout.record;
  if (rest == 0) return bytes / layout.record;
  const bool cifar10 = layout.record == kCifar10Record;
  const int64_t other = cifar10 ? kCifar100Record : kCifar10Record;
  if (bytes % other == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        where, ": this looks like ", cifar10 ? "CIFAR-100" : "CIFAR-10", ", not ", layout.set,
        ": its ", bytes, " bytes are ", bytes / other, " records of ", other, " bytes, not of ",
        layout.record, "; use --format ", cifar10 ? "cifar100" : "cifar10"));
  }
  return absl::DataLossError(absl::StrCat(where, ": its size is not a multiple of ", layout.record,
                                          ", a record of ", layout.set, ": ", bytes, " bytes are ",
                                          bytes / layout.record, " records and ", rest,
                                          " bytes; copy or download it again"));
}

// Reads the labels of one file after the other.
class PartReader {
 public:
  PartReader(std::shared_ptr<const FileTree> tree, CifarLabels labels)
      : tree_(std::move(tree)), labels_(labels), layout_(LayoutOf(labels)) {}

  absl::StatusOr<ImageDataset> Read(const std::vector<int64_t>& files) {
    ImageDataset part;
    std::vector<int64_t> ends;  // the number of the record after each file's last one
    for (const int64_t file : files) {
      TOST_ASSIGN_OR_RETURN(const int64_t records, RecordsOf(*tree_, file, layout_));
      TOST_RETURN_IF_ERROR(ReadLabels(file, records, part));
      ends.push_back(part.size());
    }
    part.read = [tree = tree_, files, ends,
                 record = layout_.record](int64_t i) -> absl::StatusOr<StoredImage> {
      size_t at = 0;
      while (i >= ends[at]) ++at;
      const int64_t within = i - (at == 0 ? 0 : ends[at - 1]);
      const int64_t labels = record - kCifarPixels;
      TOST_ASSIGN_OR_RETURN(const std::string planes,
                            tree->Read(files[at], within * record + labels, kCifarPixels));
      return CifarImage(planes);
    };
    return part;
  }

  int64_t disagreements() const { return disagreements_; }
  const std::string& first_disagreement() const { return first_disagreement_; }

 private:
  absl::Status ReadLabels(int64_t file, int64_t records, ImageDataset& part) {
    const std::string name = tree_->name(file);
    for (int64_t begin = 0; begin < records; begin += kRecordsPerRead) {
      const int64_t count = std::min(kRecordsPerRead, records - begin);
      TOST_ASSIGN_OR_RETURN(const std::string bytes,
                            tree_->Read(file, begin * layout_.record, count * layout_.record));
      for (int64_t i = 0; i < count; ++i) {
        const absl::string_view record =
            absl::string_view(bytes).substr(static_cast<size_t>(i * layout_.record));
        TOST_RETURN_IF_ERROR(CheckLabels(record, file, begin + i));
        part.items.push_back({absl::StrCat(name, " record ", begin + i),
                              static_cast<uint8_t>(record[layout_.label_at])});
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckLabels(absl::string_view record, int64_t file, int64_t number) {
    const auto byte = [&](size_t at) { return static_cast<int>(static_cast<uint8_t>(record[at])); };
    const auto out_of_range = [&](absl::string_view kind, int label, int classes) {
      return absl::DataLossError(
          absl::StrCat(tree_->Where(file), ": record ", number, " (counted from 0) has ", kind,
                       "label ", label, ", but those of ", layout_.set, " are 0 ... ", classes - 1,
                       "; the file is damaged or no ", layout_.set));
    };
    if (labels_ == CifarLabels::kCifar10) {
      return byte(0) < layout_.classes ? absl::OkStatus()
                                       : out_of_range("", byte(0), layout_.classes);
    }
    const int coarse = byte(0), fine = byte(1);
    if (coarse >= kCoarseClasses) return out_of_range("coarse ", coarse, kCoarseClasses);
    if (fine >= static_cast<int>(kFineClasses)) return out_of_range("fine ", fine, kFineClasses);
    const int expected = kCoarseOfFine[static_cast<size_t>(fine)];
    if (coarse == expected) return absl::OkStatus();
    const std::string what =
        absl::StrCat(tree_->Where(file), ": record ", number, " (counted from 0) has coarse label ",
                     coarse, ", but that of its fine label ", fine, " is ", expected);
    if (labels_ == CifarLabels::kCifar100Coarse) return absl::DataLossError(what);
    if (disagreements_++ == 0) first_disagreement_ = what;
    return absl::OkStatus();
  }

  std::shared_ptr<const FileTree> tree_;
  CifarLabels labels_;
  const Layout& layout_;
  int64_t disagreements_ = 0;
  std::string first_disagreement_;
};

// The names in the set's list, or numbers when it is not there.
absl::StatusOr<std::vector<std::string>> ClassNames(const FileTree& tree, const Layout& layout) {
  std::vector<std::string> names;
  const std::vector<int64_t> files = tree.Called(layout.names_file);
  if (files.empty()) {
    for (int i = 0; i < layout.classes; ++i) names.push_back(absl::StrCat(i));
    return names;
  }
  TOST_ASSIGN_OR_RETURN(const std::string text, tree.Read(files[0]));
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const absl::string_view name = absl::StripAsciiWhitespace(line);
    if (!name.empty()) names.emplace_back(name);
  }
  if (names.size() != static_cast<size_t>(layout.classes)) {
    return absl::DataLossError(absl::StrCat(tree.Where(files[0]), ": ", names.size(),
                                            " names for the ", layout.classes, " classes of ",
                                            layout.set, "; copy or download it again"));
  }
  return names;
}

}  // namespace

Image CifarImage(absl::string_view planes) {
  TOST_CHECK_EQ(static_cast<int64_t>(planes.size()), kCifarPixels);
  Image image(kCifarSide, kCifarSide);
  for (size_t pixel = 0; pixel < kPlane; ++pixel) {
    for (size_t channel = 0; channel < 3; ++channel) {
      image.pixels[pixel * 3 + channel] = static_cast<uint8_t>(planes[channel * kPlane + pixel]);
    }
  }
  return image;
}

bool LooksLikeCifar10(const FileTree& tree) { return !Cifar10Batches(tree).empty(); }

bool LooksLikeCifar100(const FileTree& tree) {
  return !tree.Called("train.bin").empty() && !tree.Called("test.bin").empty();
}

absl::StatusOr<ImageParts> OpenCifar(const std::shared_ptr<const FileTree>& tree,
                                     CifarLabels labels) {
  const Layout& layout = LayoutOf(labels);
  TOST_ASSIGN_OR_RETURN(const Batches batches,
                        FindBatches(*tree, layout, labels == CifarLabels::kCifar10));
  ImageParts parts;
  TOST_ASSIGN_OR_RETURN(parts.classes, ClassNames(*tree, layout));
  PartReader reader(tree, labels);
  TOST_ASSIGN_OR_RETURN(parts.train, reader.Read(batches.train));
  TOST_ASSIGN_OR_RETURN(parts.test, reader.Read({batches.test}));
  if (reader.disagreements() > 0) {
    parts.notes.push_back(absl::StrCat("warning: ", reader.first_disagreement(), "; ",
                                       reader.disagreements(), " such records in all"));
  }
  return parts;
}

}  // namespace tost::data
