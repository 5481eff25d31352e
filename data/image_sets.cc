#include "data/image_sets.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "autograd/base/errors.h"
#include "data/cifar.h"
#include "data/file_tree.h"
#include "data/flowers102.h"
#include "data/image_folders.h"
#include "data/image_parts.h"
#include "data/pets.h"

namespace tost::data {
namespace {

using Tree = std::shared_ptr<const FileTree>;
using Sizes = std::array<int64_t, 3>;  // of the parts as distributed: train, validation, test

struct Format {
  const char* name;
  const char* files;  // that it is told by
  bool (*looks_like)(const FileTree& tree);
  absl::StatusOr<ImageParts> (*open)(const Tree& tree, const ImageSetOptions& options);
  Sizes official;  // zeros: any
};

absl::StatusOr<ImageParts> OpenCifar10(const Tree& tree, const ImageSetOptions&) {
  return OpenCifar(tree, CifarLabels::kCifar10);
}

absl::StatusOr<ImageParts> OpenCifar100(const Tree& tree, const ImageSetOptions& options) {
  return OpenCifar(
      tree, options.labels == "coarse" ? CifarLabels::kCifar100Coarse : CifarLabels::kCifar100Fine);
}

absl::StatusOr<ImageParts> OpenFlowers(const Tree& tree, const ImageSetOptions& options) {
  return OpenFlowers102(tree, /*present_only=*/options.any_sizes);
}

absl::StatusOr<ImageParts> OpenPetSet(const Tree& tree, const ImageSetOptions&) {
  return OpenPets(tree);
}

absl::StatusOr<ImageParts> OpenFolderSet(const Tree& tree, const ImageSetOptions&) {
  return OpenImageFolders(tree);
}

constexpr Format kFormats[] = {
    {"cifar10", "data_batch_1.bin", &LooksLikeCifar10, &OpenCifar10, {50000, 0, 10000}},
    {"cifar100", "train.bin and test.bin", &LooksLikeCifar100, &OpenCifar100, {50000, 0, 10000}},
    {"flowers102",
     "imagelabels.mat and setid.mat",
     &LooksLikeFlowers102,
     &OpenFlowers,
     {1020, 1020, 6149}},
    {"pets", "trainval.txt and test.txt", &LooksLikePets, &OpenPetSet, {3680, 0, 3669}},
    {"folders", "train/CLASS/PICTURE", &LooksLikeImageFolders, &OpenFolderSet, {}},
};

// Splits that are in use, but are not the official ones of their set.
struct Repack {
  Sizes sizes;
  const char* what;
};
constexpr Repack kFlowersRepacks[] = {
    {{6149, 1020, 1020}, "Flowers-102 with training and test part swapped"},
    {{6149, 1020, 0}, "Flowers-102 with its test part used for training"},
    {{6552, 818, 819}, "a popular repack of Flowers-102"},
    {{6552, 818, 0}, "a popular repack of Flowers-102"},
};

absl::Status CheckOptions(const ImageSetOptions& options) {
  if (options.data.empty()) {
    return absl::InvalidArgumentError("--data: name the folder or the archives of the set");
  }
  if (options.labels != "fine" && options.labels != "coarse") {
    return absl::InvalidArgumentError(
        absl::StrCat("--labels ", options.labels, ": CIFAR-100 has fine and coarse ones"));
  }
  if (!(options.validation_fraction >= 0 && options.validation_fraction < 1)) {
    return absl::InvalidArgumentError(absl::StrCat("--validation_fraction ",
                                                   options.validation_fraction,
                                                   ": give a share of at least 0 and below 1"));
  }
  return absl::OkStatus();
}

absl::Status CheckProtocol(const ImageSetOptions& options, absl::string_view format) {
  const std::string& protocol = options.protocol;
  if (protocol.empty() || protocol == "official") return absl::OkStatus();
  if (protocol == "trainval" && format == "flowers102") return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--protocol ", protocol, ": the protocols of ",
                                                 format, " are: official",
                                                 format == "flowers102" ? ", trainval" : ""));
}

// Names of formats with the files they are told by.
std::string FormatsAndFiles() {
  std::vector<std::string> lines;
  for (const Format& format : kFormats) {
    lines.push_back(absl::StrCat(format.name, " (", format.files, ")"));
  }
  return absl::StrJoin(lines, ", ");
}

absl::StatusOr<const Format*> FormatOf(const FileTree& tree, const std::string& name) {
  if (!name.empty()) {
    for (const Format& format : kFormats) {
      if (name == format.name) return &format;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("--format ", name, ": the formats are ", FormatsAndFiles()));
  }
  std::vector<const Format*> found;
  for (const Format& format : kFormats) {
    if (format.looks_like(tree)) found.push_back(&format);
  }
  if (found.size() == 1) return found[0];
  if (found.empty()) {
    return absl::NotFoundError(absl::StrCat(tree.description(), ": no known set among its ",
                                            tree.size(), " files; the formats are ",
                                            FormatsAndFiles()));
  }
  return absl::InvalidArgumentError(absl::StrCat(tree.description(), ": files of ", found[0]->name,
                                                 " and of ", found[1]->name,
                                                 "; give the folder of one set, or say --format"));
}

Sizes SizesOf(const ImageParts& parts) {
  return {parts.train.size(), parts.validation.size(), parts.test.size()};
}

// "50000 training and 10000 test pictures".
std::string Describe(const Sizes& sizes) {
  return absl::StrCat(sizes[0], " training",
                      sizes[1] > 0 ? absl::StrCat(", ", sizes[1], " validation") : "", " and ",
                      sizes[2], " test pictures");
}

// What is unusual about the sizes; nothing if nothing is.
std::vector<std::string> SizeFindings(const Format& format, const ImageParts& parts) {
  const Sizes sizes = SizesOf(parts);
  constexpr size_t kFlowerClasses = 102;
  if (parts.classes.size() == kFlowerClasses) {
    for (const Repack& repack : kFlowersRepacks) {
      if (sizes != repack.sizes) continue;
      return {absl::StrCat(Describe(sizes), " are the sizes of ", repack.what,
                           ", not of the official split (1020, 1020 and 6149); accuracies on them "
                           "cannot be compared with published ones")};
    }
  }
  if (format.official == Sizes{} || sizes == format.official) return {};
  return {absl::StrCat("found ", Describe(sizes), ", but ", format.name, " has ",
                       Describe(format.official))};
}

// Classes without a picture in a part that has pictures.
void AddAbsentClasses(absl::string_view part, const ImageDataset& pictures,
                      const std::vector<std::string>& classes, std::vector<std::string>& findings) {
  if (pictures.size() == 0) return;
  const std::vector<int64_t> counts = ClassCounts(pictures, classes.size());
  std::vector<std::string> absent;
  for (size_t i = 0; i < classes.size(); ++i) {
    if (counts[i] == 0) absent.push_back(classes[i]);
  }
  if (absent.empty()) return;
  findings.push_back(absl::StrCat("the ", part, " part has no picture of these of the ",
                                  classes.size(), " classes: ", FirstFive(absent)));
}

// The findings as an error, or as notes when they are accepted.
absl::Status Judge(const FileTree& tree, const Format& format, bool accepted, ImageParts& parts) {
  std::vector<std::string> findings = SizeFindings(format, parts);
  AddAbsentClasses("training", parts.train, parts.classes, findings);
  AddAbsentClasses("validation", parts.validation, parts.classes, findings);
  AddAbsentClasses("test", parts.test, parts.classes, findings);
  if (parts.train.size() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(tree.description(), ": there is no picture to train on"));
  }
  if (accepted) {
    for (const std::string& finding : findings) {
      parts.notes.push_back(absl::StrCat("warning: ", finding, " (accepted by --any_sizes)"));
    }
    return absl::OkStatus();
  }
  if (findings.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(tree.description(), ": ",
                                                 absl::StrJoin(findings, "; "),
                                                 "; pass --any_sizes if this is what you want"));
}

// "5000 pictures of 10 classes, 500 to 500 each".
std::string Summary(const ImageDataset& pictures, size_t classes) {
  if (pictures.size() == 0) return "none";
  int64_t least = pictures.size(), most = 0;
  size_t present = 0;
  for (const int64_t count : ClassCounts(pictures, classes)) {
    if (count == 0) continue;
    ++present;
    least = std::min(least, count);
    most = std::max(most, count);
  }
  return absl::StrCat(pictures.size(), " pictures of ", present, " classes, ", least,
                      least == most ? "" : absl::StrCat(" to ", most), " each");
}

// Where the pictures of each part come from.
struct Origins {
  std::string train, validation, test;
};

// From the parts of a distribution to those of a run.
Origins Divide(const Format& format, const ImageSetOptions& options, ImageParts& parts) {
  Origins origins{"train", "validation", "test"};
  if (parts.test.size() == 0 && parts.validation.size() > 0) {
    parts.test = std::exchange(parts.validation, {});
    origins.test = "val; without a test folder the labelled val folder is the test part";
  }
  if (format.official == Sizes{1020, 1020, 6149}) {
    origins = {"trnid", "valid", "tstid"};
    if (options.protocol == "trainval") {
      parts.train = Joined(parts.train, std::exchange(parts.validation, {}));
      origins.train = "trnid and valid";
    }
  }
  if (parts.validation.size() > 0) return origins;
  const std::string from = origins.train;
  if (options.validation_fraction == 0) {
    origins.validation = "nothing is held out";
    return origins;
  }
  parts.validation =
      HoldOut(options.validation_fraction, options.seed, parts.classes.size(), parts.train);
  origins.validation = absl::StrCat(options.validation_fraction, " of each class of ", from,
                                    ", seed ", options.seed);
  origins.train = absl::StrCat("the rest of ", from);
  return origins;
}

// "cifar10, official; validation: 0.1 of each class of train, seed 0".
std::string ProtocolName(const Format& format, const ImageSetOptions& options, const Sizes& sizes,
                         absl::string_view validation) {
  constexpr Sizes kImageNet = {1281167, 50000, 0};
  std::string name = format.name;
  if (name == "cifar100") absl::StrAppend(&name, " ", options.labels);
  if (format.official == Sizes{}) {
    absl::StrAppend(&name, ", ", absl::StrJoin(sizes, "/"));
    if (sizes == kImageNet) absl::StrAppend(&name, " as ImageNet-1k");
  } else {
    absl::StrAppend(&name, ", ", options.protocol.empty() ? "official" : options.protocol);
    if (sizes != format.official) {
      absl::StrAppend(&name, " with other sizes (", absl::StrJoin(sizes, "/"), ")");
    }
  }
  return absl::StrCat(name, "; validation: ", validation);
}

void AddNotes(const FileTree& tree, const Format& format, bool told, const Origins& origins,
              const ImageParts& parts, ImageSets& sets) {
  std::vector<std::string>& notes = sets.notes;
  const auto add_part = [&](absl::string_view part, const ImageDataset& pictures,
                            absl::string_view origin) {
    notes.push_back(absl::StrCat(
        part, ": ", Summary(pictures, parts.classes.size()),
        pictures.size() > 0 || part == "validation" ? absl::StrCat(" (", origin, ")") : ""));
  };
  notes = tree.notes();
  notes.push_back(absl::StrCat(tree.description(), ": ", format.name,
                               told ? "" : absl::StrCat(", told by ", format.files), "; protocol ",
                               sets.protocol));
  add_part("training", parts.train, origins.train);
  add_part("validation", parts.validation, origins.validation);
  add_part("test", parts.test, origins.test);
  if (tree.skipped().count > 0) {
    notes.push_back(absl::StrCat("hidden files passed over: ", tree.skipped().count, ", such as ",
                                 tree.skipped().first));
  }
  notes.insert(notes.end(), parts.notes.begin(), parts.notes.end());
}

}  // namespace

absl::StatusOr<ImageSets> OpenImageSets(const ImageSetOptions& options) {
  TOST_RETURN_IF_ERROR(CheckOptions(options));
  TOST_ASSIGN_OR_RETURN(const Tree tree, FileTree::Open(options.data));
  TOST_ASSIGN_OR_RETURN(const Format* const format, FormatOf(*tree, options.format));
  TOST_RETURN_IF_ERROR(CheckProtocol(options, format->name));
  TOST_ASSIGN_OR_RETURN(ImageParts parts, format->open(tree, options));
  TOST_RETURN_IF_ERROR(Judge(*tree, *format, options.any_sizes, parts));
  const Sizes sizes = SizesOf(parts);
  const Origins origins = Divide(*format, options, parts);
  ImageSets sets;
  sets.format = format->name;
  sets.protocol = ProtocolName(*format, options, sizes, origins.validation);
  AddNotes(*tree, *format, /*told=*/!options.format.empty(), origins, parts, sets);
  sets.classes = std::move(parts.classes);
  sets.train = std::move(parts.train);
  sets.validation = std::move(parts.validation);
  sets.test = std::move(parts.test);
  return sets;
}

}  // namespace tost::data
