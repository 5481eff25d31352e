// How well a classifier does: counted picture by picture, so that every one counts once whatever
// the batches and ranks.
#ifndef TOST_TRAINERS_CLASSIFICATION_H_
#define TOST_TRAINERS_CLASSIFICATION_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "autograd/tensor.h"
#include "data/image.h"

namespace tost::train {

class ClassificationTally {
 public:
  explicit ClassificationTally(int64_t classes);

  // logits [n, classes] and n labels. A label counts among the first k when fewer than k classes
  // have a larger logit, of equal ones those of lower number going first; it never does when its
  // logit is no number.
  void Add(const Tensor& logits, std::span<const int32_t> labels);

  int64_t count() const { return count_; }
  int64_t classes() const { return classes_; }
  double loss() const { return Share(loss_); }                       // mean cross entropy, nats
  double top1() const { return Share(static_cast<double>(top1_)); }  // in [0, 1]
  double top5() const { return Share(static_cast<double>(top5_)); }
  // Pictures of class `label` that were taken for class `predicted`.
  int64_t Confused(int64_t label, int64_t predicted) const;
  int64_t CountOf(int64_t label) const;

 private:
  // NaN when nothing was counted.
  double Share(double sum) const { return sum / static_cast<double>(count_); }

  int64_t classes_;
  int64_t count_ = 0;
  double loss_ = 0;
  int64_t top1_ = 0;
  int64_t top5_ = 0;
  std::vector<int64_t> confusion_;  // [classes, classes], rows are labels
};

// A line for each class that occurs: "class  pictures  top-1  most often taken for".
std::string ClassTable(const ClassificationTally& tally, const std::vector<std::string>& names);

// The confusion matrix as a picture: rows are labels, columns predictions, each row scaled to its
// number of pictures; names and numbers are written where there are at most 20 classes.
data::Image ConfusionPicture(const ClassificationTally& tally,
                             const std::vector<std::string>& names);

}  // namespace tost::train

#endif  // TOST_TRAINERS_CLASSIFICATION_H_
