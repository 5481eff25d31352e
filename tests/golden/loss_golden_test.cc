// Cross entropy and mixup against values computed in double with PyTorch's primitives.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "autograd/tape.h"
#include "data/mixing.h"
#include "gtest/gtest.h"
#include "ops/loss.h"
#include "tests/golden/golden.h"

namespace tost {
namespace {

using golden::GoldenFile;
using golden::GoldenFiles;

// Relative to the largest entry: double sums in another order; and four roundings of a float.
constexpr double kDoubleBound = 1e-10;
constexpr double kFloatBound = 4e-6;

double Bound(DType dtype) { return dtype == DType::kFloat64 ? kDoubleBound : kFloatBound; }

void ExpectClose(const std::vector<double>& actual, const std::vector<double>& truth,
                 double bound) {
  ASSERT_EQ(actual.size(), truth.size());
  double largest = 0;
  for (double value : truth) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < truth.size(); ++i) {
    EXPECT_NEAR(actual[i], truth[i], bound * largest) << "element " << i;
  }
}

// Runs loss(logits) and compares it and its gradient with `<name>.loss` and `<name>.dlogits`.
template <class Loss>
void CheckLoss(const GoldenFile& file, const std::string& name, Loss&& loss) {
  for (DType dtype : {DType::kFloat64, DType::kFloat32}) {
    SCOPED_TRACE(absl::StrCat(file.name(), ": ", name, ", ", Name(dtype)));
    const Tensor logits = Leaf(file.Load("logits", dtype));
    Tape tape;
    const Tensor value = loss(logits);
    tape.Backward(value);
    ExpectClose(value.ToHost<double>(), file.Doubles(name + ".loss"), Bound(dtype));
    ExpectClose(logits.grad()->value().ToHost<double>(), file.Doubles(name + ".dlogits"),
                Bound(dtype));
  }
}

ops::CrossEntropyOptions Mean(double smoothing = 0) {
  return {.label_smoothing = smoothing, .reduction = ops::Reduction::kMean};
}

TEST(LossGolden, Ids) {
  for (const GoldenFile& file : GoldenFiles("losses")) {
    const Tensor targets = file.Load("target", DType::kInt32);
    const Tensor some = file.Load("target_ignore", DType::kInt32);
    CheckLoss(file, "ce", [&](const Tensor& x) { return ops::CrossEntropy(x, targets, Mean()); });
    CheckLoss(file, "ce_ignore",
              [&](const Tensor& x) { return ops::CrossEntropy(x, some, Mean()); });
  }
}

TEST(LossGolden, LabelSmoothing) {
  for (const GoldenFile& file : GoldenFiles("losses")) {
    // Named after the amount: "ls0.1.loss".
    std::string name;
    for (const std::string& tensor : file.TensorNames()) {
      if (tensor.starts_with("ls") && tensor.ends_with(".loss")) {
        name = tensor.substr(0, tensor.size() - 5);
      }
    }
    ASSERT_FALSE(name.empty());
    const Tensor targets = file.Load("target", DType::kInt32);
    CheckLoss(file, name, [&](const Tensor& x) {
      return ops::CrossEntropy(x, targets, Mean(file.Number("smoothing")));
    });
  }
}

TEST(LossGolden, SoftTargets) {
  for (const GoldenFile& file : GoldenFiles("losses")) {
    CheckLoss(file, "soft", [&](const Tensor& x) {
      return ops::SoftCrossEntropy(x, file.Load("mixup_target", x.dtype()));
    });
  }
}

TEST(LossGolden, LargeLogits) {
  for (const GoldenFile& file : GoldenFiles("losses")) {
    const int64_t rows = file.ShapeOf("big_logits")[0], classes = file.ShapeOf("big_logits")[1];
    // The file does not say its targets; they are those that give its loss.
    int64_t combinations = 1, matches = 0;
    for (int64_t r = 0; r < rows; ++r) combinations *= classes;
    for (int64_t combination = 0; combination < combinations; ++combination) {
      std::vector<int32_t> ids;
      for (int64_t r = 0, rest = combination; r < rows; ++r, rest /= classes) {
        ids.push_back(static_cast<int32_t>(rest % classes));
      }
      const Tensor targets = golden::OnDevice({rows}, ids);
      bool equal = true;
      for (DType dtype : {DType::kFloat64, DType::kFloat32}) {
        const double loss =
            ops::CrossEntropy(file.Load("big_logits", dtype), targets, Mean()).Item();
        EXPECT_TRUE(std::isfinite(loss));
        equal = equal && std::abs(loss - file.Scalar("big.ce")) <=
                             Bound(dtype) * std::abs(file.Scalar("big.ce"));
      }
      matches += equal;
    }
    EXPECT_GE(matches, 1) << file.name();
  }
}

TEST(LossGolden, Mixup) {
  for (const GoldenFile& file : GoldenFiles("losses")) {
    const Shape shape = file.ShapeOf("mixup_x");
    const float lambda = static_cast<float>(file.Number("lam"));
    std::vector<float> images = file.Values<float>("mixup_x");
    const std::vector<int32_t> labels = file.Values<int32_t>("target");
    const std::vector<int32_t> partner_labels(labels.rbegin(), labels.rend());
    std::vector<int64_t> partners(static_cast<size_t>(shape[0]));
    std::iota(partners.rbegin(), partners.rend(), 0);
    data::MixImages({data::Mixing::Kind::kMixup, lambda}, partners, 1, shape.numel() / shape[0] / 3,
                    images);
    ExpectClose({images.begin(), images.end()}, file.Doubles("mixup_x_out"), kFloatBound);

    const std::vector<float> targets =
        data::MixedTargets(lambda, static_cast<float>(file.Number("smoothing")),
                           file.ShapeOf("mixup_target")[1], labels, partner_labels);
    ExpectClose({targets.begin(), targets.end()}, file.Doubles("mixup_target"), kFloatBound);
  }
}

}  // namespace
}  // namespace tost
