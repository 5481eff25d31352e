#include "trainers/classification.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "autograd/base/errors.h"
#include "data/draw.h"

namespace tost::train {
namespace {

// Classes that come before `label` in the order of their logits.
int64_t RankOf(std::span<const float> logits, int64_t label) {
  const float own = logits[static_cast<size_t>(label)];
  if (std::isnan(own)) return std::numeric_limits<int64_t>::max();
  int64_t rank = 0;
  for (size_t c = 0; c < logits.size(); ++c) {
    if (logits[c] > own || (logits[c] == own && static_cast<int64_t>(c) < label)) ++rank;
  }
  return rank;
}

// −log softmax(logits)[label].
double LossOf(std::span<const float> logits, int64_t label) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return std::log(sum) + largest - static_cast<double>(logits[static_cast<size_t>(label)]);
}

std::string NameOf(const std::vector<std::string>& names, int64_t label) {
  return static_cast<size_t>(label) < names.size() ? names[static_cast<size_t>(label)]
                                                   : absl::StrCat("class ", label);
}

// The class that pictures of `label` are most often taken for, wrongly; -1: never.
int64_t Rival(const ClassificationTally& tally, int64_t label) {
  int64_t rival = -1, most = 0;
  for (int64_t c = 0; c < tally.classes(); ++c) {
    if (c != label && tally.Confused(label, c) > most) {
      rival = c;
      most = tally.Confused(label, c);
    }
  }
  return rival;
}

constexpr char kConfusionTitle[] = "rows: class, columns: taken for, colour: share of the row";
constexpr int kMostWrittenClasses = 20;
constexpr int kWrittenCell = 34;  // pixels; four digits fit
constexpr int kBareCell = 5;
constexpr int kMargin = 6;

// The name of a class before its row, and its first letters above its column.
void DrawNames(data::Image& picture, const std::string& name, int label, int left, int top) {
  const int row = top + label * kWrittenCell + (kWrittenCell - data::TextHeight()) / 2;
  data::Text(picture, kMargin, row, name, data::kBlack);
  std::string head = name;
  while (data::TextWidth(head) > kWrittenCell - 2) head.pop_back();
  data::Text(picture, left + label * kWrittenCell + 1, top - data::TextHeight() - 2, head,
             data::kBlack);
}

// The count in the middle of a cell, light on dark colours.
void DrawCount(data::Image& picture, int64_t count, double share, int x, int y) {
  const std::string digits = absl::StrCat(count);
  data::Text(picture, x + (kWrittenCell - data::TextWidth(digits)) / 2,
             y + (kWrittenCell - data::TextHeight()) / 2, digits,
             share < 0.5 ? data::kWhite : data::kBlack);
}

}  // namespace

ClassificationTally::ClassificationTally(int64_t classes)
    : classes_(classes), confusion_(static_cast<size_t>(classes * classes), 0) {}

void ClassificationTally::Add(const Tensor& logits, std::span<const int32_t> labels) {
  TOST_CHECK(logits.shape() == Shape({static_cast<int64_t>(labels.size()), classes_}))
      << "logits " << logits.shape() << " of " << labels.size() << " pictures";
  const std::vector<float> values = logits.ToHost();
  const auto width = static_cast<size_t>(classes_);
  for (size_t i = 0; i < labels.size(); ++i) {
    const std::span row = std::span(values).subspan(i * width, width);
    const int64_t label = labels[i];
    TOST_CHECK(label >= 0 && label < classes_) << "label " << label << " of " << classes_;
    const int64_t rank = RankOf(row, label);
    ++count_;
    top1_ += rank < 1;
    top5_ += rank < 5;
    loss_ += LossOf(row, label);
    const auto predicted = static_cast<size_t>(std::ranges::max_element(row) - row.begin());
    ++confusion_[static_cast<size_t>(label) * width + predicted];
  }
}

int64_t ClassificationTally::Confused(int64_t label, int64_t predicted) const {
  return confusion_[static_cast<size_t>(label * classes_ + predicted)];
}

int64_t ClassificationTally::CountOf(int64_t label) const {
  int64_t count = 0;
  for (int64_t c = 0; c < classes_; ++c) count += Confused(label, c);
  return count;
}

std::string ClassTable(const ClassificationTally& tally, const std::vector<std::string>& names) {
  size_t widest = 5;
  for (const std::string& name : names) widest = std::max(widest, name.size());
  const int width = static_cast<int>(widest);
  std::string table = absl::StrFormat("%-*s %9s %8s  %s\n", width, "class", "pictures", "top-1",
                                      "mostly taken for");
  for (int64_t label = 0; label < tally.classes(); ++label) {
    const int64_t count = tally.CountOf(label);
    if (count == 0) continue;
    const double right =
        100.0 * static_cast<double>(tally.Confused(label, label)) / static_cast<double>(count);
    const int64_t rival = Rival(tally, label);
    absl::StrAppend(&table,
                    absl::StrFormat("%-*s %9d %7.1f%%", width, NameOf(names, label), count, right));
    if (rival >= 0) {
      absl::StrAppend(&table, "  ", NameOf(names, rival), " (", tally.Confused(label, rival), ")");
    }
    absl::StrAppend(&table, "\n");
  }
  return table;
}

data::Image ConfusionPicture(const ClassificationTally& tally,
                             const std::vector<std::string>& names) {
  const auto classes = static_cast<int>(tally.classes());
  const bool written = classes <= kMostWrittenClasses;
  const int cell = written ? kWrittenCell : kBareCell;
  int left = kMargin, top = kMargin + 2 * data::TextHeight();
  for (int label = 0; written && label < classes; ++label) {
    left = std::max(left, 2 * kMargin + data::TextWidth(NameOf(names, label)));
  }
  if (written) top += kMargin + data::TextHeight();

  const int width = left + classes * cell + kMargin;
  data::Image picture(std::max(width, data::TextWidth(kConfusionTitle) + 2 * kMargin),
                      top + classes * cell + kMargin);
  data::FillRectangle(picture, {0, 0, picture.width, picture.height}, data::kWhite);
  data::Text(picture, kMargin, kMargin, kConfusionTitle, data::kBlack);
  for (int label = 0; label < classes; ++label) {
    const int y = top + label * cell;
    if (written) DrawNames(picture, NameOf(names, label), label, left, top);
    for (int predicted = 0; predicted < classes; ++predicted) {
      const int x = left + predicted * cell;
      const double share = static_cast<double>(tally.Confused(label, predicted)) /
                           static_cast<double>(std::max<int64_t>(1, tally.CountOf(label)));
      data::FillRectangle(picture, {x, y, cell, cell}, data::HeatColor(share));
      if (written) DrawCount(picture, tally.Confused(label, predicted), share, x, y);
    }
  }
  return picture;
}

}  // namespace tost::train
