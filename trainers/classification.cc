#include "trainers/classification.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "autograd/base/errors.h"

namespace tost::train {
namespace {

// Classes that come before `label` in the order of their logits.
int64_t RankOf(std::span<const float> logits, int64_t label) {
  const float own = logits[static_cast<size_t>(label)];
  if (std::isnan(own)) return static_cast<int64_t>(logits.size());
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
  (void)names;
  return data::Image(static_cast<int>(tally.classes()) * 8, static_cast<int>(tally.classes()) * 8);
}

}  // namespace tost::train
