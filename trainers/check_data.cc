#include "trainers/check_data.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <unordered_map>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "autograd/base/errors.h"
#include "autograd/base/log.h"
#include "autograd/base/parallel.h"
#include "data/digest.h"
#include "data/image.h"
#include "data/image_decode.h"
#include "trainers/interrupt.h"
#include "trainers/progress.h"

namespace tost::train {
namespace {

using data::Image;
using data::ImageDataset;
using data::StoredImage;

// Pictures between two looks at signals and the progress line.
constexpr int64_t kChunk = 256;
// Copies shown of each kind.
constexpr size_t kShown = 5;

struct Inspected {
  int width = 0, height = 0;
  std::string digest;  // of the extents and pixels
  absl::Status status;
};

absl::StatusOr<Image> Decode(const ImageDataset& pictures, int64_t i) {
  TOST_ASSIGN_OR_RETURN(StoredImage stored, pictures.read(i));
  if (auto* image = std::get_if<Image>(&stored)) return std::move(*image);
  return data::DecodeImage(std::get<std::string>(stored),
                           pictures.items[static_cast<size_t>(i)].name, data::Orientation::kStored);
}

Inspected Inspect(const ImageDataset& pictures, int64_t i) {
  const absl::StatusOr<Image> image = Decode(pictures, i);
  if (!image.ok()) return {.status = image.status()};
  data::Sha256 digest;
  digest.Append(absl::StrCat(image->width, "x", image->height, " "));
  digest.Append({reinterpret_cast<const char*>(image->pixels.data()), image->pixels.size()});
  return {image->width, image->height, digest.Hex(), absl::OkStatus()};
}

CheckedPart CountClasses(const char* name, const ImageDataset& pictures, size_t classes) {
  CheckedPart part{.name = name, .pictures = pictures.size()};
  std::vector<int64_t> counts(classes);
  for (const ImageDataset::Item& item : pictures.items) ++counts[static_cast<size_t>(item.label)];
  for (const int64_t count : counts) {
    if (count == 0) continue;
    part.least = part.classes == 0 ? count : std::min(part.least, count);
    part.most = std::max(part.most, count);
    ++part.classes;
  }
  return part;
}

class Checker {
 public:
  explicit Checker(int64_t total) : total_(total) {}

  absl::Status Check(const ImageDataset& pictures, bool test, CheckedPart& part) {
    std::vector<Inspected> chunk;
    for (int64_t begin = 0; begin < pictures.size(); begin += kChunk) {
      const int64_t count = std::min(kChunk, pictures.size() - begin);
      chunk.assign(static_cast<size_t>(count), {});
      ParallelFor(count, /*grain=*/1, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
          chunk[static_cast<size_t>(i)] = Inspect(pictures, begin + i);
        }
      });
      for (int64_t i = 0; i < count; ++i) {
        Add(chunk[static_cast<size_t>(i)], pictures.items[static_cast<size_t>(begin + i)], test,
            part);
      }
      TOST_RETURN_IF_ERROR(Advance(count));
    }
    return absl::OkStatus();
  }

  DataCheck result;

 private:
  struct First {
    const ImageDataset::Item* item;
    bool test;
  };

  void Add(const Inspected& picture, const ImageDataset::Item& item, bool test, CheckedPart& part) {
    if (!picture.status.ok()) {
      part.bad.push_back(std::string(picture.status.message()));
      return;
    }
    const auto pixels = [](int width, int height) { return int64_t{width} * height; };
    const int64_t size = pixels(picture.width, picture.height);
    if (part.decoded == 0 || size < pixels(part.smallest_width, part.smallest_height)) {
      part.smallest_width = picture.width;
      part.smallest_height = picture.height;
    }
    if (size > pixels(part.largest_width, part.largest_height)) {
      part.largest_width = picture.width;
      part.largest_height = picture.height;
    }
    ++part.decoded;
    const auto [first, is_new] = seen_.emplace(picture.digest, First{&item, test});
    if (is_new) return;
    const std::string pair = absl::StrCat(first->second.item->name, " = ", item.name);
    (first->second.test != test ? result.shared : result.repeated).push_back(pair);
    if (first->second.item->label != item.label) result.relabelled.push_back(pair);
  }

  absl::Status Advance(int64_t count) {
    if (PendingInterrupt() != 0) {
      line_.Clear();
      return absl::CancelledError(absl::StrCat("stopped by a signal after ", FormatCount(done_),
                                               " of ", FormatCount(total_), " pictures"));
    }
    done_ += count;
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start_;
    const double left = seconds.count() * static_cast<double>(total_ - done_) /
                        static_cast<double>(std::max<int64_t>(done_, 1));
    line_.Update(
        [&] {
          return absl::StrCat("decoded ", FormatCount(done_), "/", FormatCount(total_),
                              " pictures  ", FormatDuration(left), " left");
        },
        done_ == total_);
    return absl::OkStatus();
  }

  int64_t total_;
  int64_t done_ = 0;
  std::unordered_map<std::string, First> seen_;  // by digest
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  ProgressLine line_;
};

std::string Extents(int width, int height) {
  return width == 0 ? "" : absl::StrCat(width, "x", height);
}

void PrintTable(const DataCheck& check) {
  std::printf("%-12s %10s %8s %22s %14s %14s %10s\n", "part", "pictures", "classes",
              "pictures of a class", "smallest", "largest", "unreadable");
  for (const CheckedPart& part : check.parts) {
    const std::string range = part.classes == 0 ? "" : absl::StrCat(part.least, " to ", part.most);
    std::printf("%-12s %10s %8s %22s %14s %14s %10s\n", part.name.c_str(),
                FormatCount(part.pictures).c_str(), FormatCount(part.classes).c_str(),
                range.c_str(), Extents(part.smallest_width, part.smallest_height).c_str(),
                Extents(part.largest_width, part.largest_height).c_str(),
                FormatCount(static_cast<int64_t>(part.bad.size())).c_str());
  }
}

void PrintCopies(const std::vector<std::string>& pairs, const char* what) {
  if (pairs.empty()) return;
  std::printf("%s %s\n", FormatCount(static_cast<int64_t>(pairs.size())).c_str(), what);
  for (size_t i = 0; i < std::min(pairs.size(), kShown); ++i)
    std::printf("  %s\n", pairs[i].c_str());
  if (pairs.size() > kShown) std::printf("  ...\n");
}

}  // namespace

absl::StatusOr<DataCheck> CheckImages(const data::ImageSets& sets) {
  Checker checker(sets.train.size() + sets.validation.size() + sets.test.size());
  const size_t classes = sets.classes.size();
  const std::pair<const char*, const ImageDataset*> parts[] = {
      {"training", &sets.train}, {"validation", &sets.validation}, {"test", &sets.test}};
  for (const auto& [name, pictures] : parts) {
    CheckedPart part = CountClasses(name, *pictures, classes);
    TOST_RETURN_IF_ERROR(checker.Check(*pictures, pictures == &sets.test, part));
    checker.result.parts.push_back(std::move(part));
  }
  return std::move(checker.result);
}

absl::Status CheckData(const data::ImageSetOptions& options) {
  CatchInterrupts();
  TOST_ASSIGN_OR_RETURN(const data::ImageSets sets, data::OpenImageSets(options));
  for (const std::string& note : sets.notes) LogInfo(note);
  TOST_ASSIGN_OR_RETURN(const DataCheck check, CheckImages(sets));
  PrintTable(check);
  int64_t bad = 0;
  for (const CheckedPart& part : check.parts) {
    for (const std::string& finding : part.bad) {
      std::printf("%s: %s\n", part.name.c_str(), finding.c_str());
    }
    bad += static_cast<int64_t>(part.bad.size());
  }
  PrintCopies(check.shared, "pictures of the test part are in the training or validation part too");
  PrintCopies(check.repeated,
              "pictures occur again in the same part, or in training and validation");
  PrintCopies(check.relabelled, "of these copies have different labels");
  std::fflush(stdout);  // before the error, which refers to it
  if (bad == 0) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(options.data[0], ": ", FormatCount(bad),
                                          bad == 1 ? " picture" : " pictures",
                                          " cannot be decoded, as listed above"));
}

}  // namespace tost::train
