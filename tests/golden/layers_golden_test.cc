// Linear, GELU, LayerNorm and Embedding against the official implementation's values.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "autograd/tape.h"
#include "gtest/gtest.h"
#include "ops/embedding.h"
#include "ops/layer_norm.h"
#include "ops/linear.h"
#include "tests/golden/golden.h"

namespace tost::golden {
namespace {

constexpr DType kDTypes[] = {DType::kFloat32, DType::kFloat64};

TEST(Layers, Linear) {
  for (const GoldenFile& file : GoldenFiles("linear")) {
    for (const DType dtype : kDTypes) {
      const Tensor x = Leaf(file.Load("x", dtype));
      const Tensor w = Leaf(file.Load("param.weight", dtype));
      const Tensor b = Leaf(file.Load("param.bias", dtype));
      Tape tape;
      const Tensor y = ops::Linear(x, w, b);
      tape.BackwardFrom(y, file.Load("dy", dtype));
      ExpectGolden(file, "y", y);
      ExpectGolden(file, "dx", x.grad()->value());
      ExpectGolden(file, "grad.weight", w.grad()->value());
      ExpectGolden(file, "grad.bias", b.grad()->value());
    }
  }
}

// The fused op with the weight 1: y = GELU(x).
TEST(Layers, Gelu) {
  for (const GoldenFile& file : GoldenFiles("gelu")) {
    for (const DType dtype : kDTypes) {
      const int64_t count = file.ShapeOf("x").numel();
      // The float64 values here belong to float64 points of their own.
      const std::string points = dtype == DType::kFloat64 ? "x.f64" : "x";
      const Tensor x = Leaf(file.Load(points, dtype).Reshaped({count, 1}));
      const Tensor one = Tensor::Scalar(1, dtype, golden::TestDevice()).Reshaped({1, 1});
      Tape tape;
      const Tensor y = ops::LinearGelu(x, one);
      tape.BackwardFrom(
          y, Converted(golden::OnDevice<double>(
                           {count, 1}, std::vector<double>(static_cast<size_t>(count), 1.0)),
                       dtype));
      ExpectGolden(file, "y", y);
      ExpectGolden(file, "dx", x.grad()->value());
    }
  }
}

// With a row of equal values, a row of zeros and a tiny row among the others.
TEST(Layers, LayerNorm) {
  for (const GoldenFile& file : GoldenFiles("layernorm_")) {
    const double epsilon = file.Number("eps");
    for (const DType dtype : kDTypes) {
      const Tensor x = Leaf(file.Load("x", dtype));
      const Tensor weight = Leaf(file.Load("param.weight", dtype));
      const Tensor bias = Leaf(file.Load("param.bias", dtype));
      Tape tape;
      const Tensor y = ops::LayerNorm(x, weight, bias, epsilon);
      tape.BackwardFrom(y, file.Load("dy", dtype));
      ExpectGolden(file, "y", y);
      ExpectGolden(file, "dx", x.grad()->value());
      ExpectGolden(file, "grad.weight", weight.grad()->value());
      ExpectGolden(file, "grad.bias", bias.grad()->value());
    }
  }
}

TEST(Layers, Embedding) {
  for (const GoldenFile& file : GoldenFiles("embedding")) {
    const Tensor table = Leaf(file.Load("weight", DType::kFloat32));
    Tape tape;
    const Tensor y = ops::Embedding(file.Load("idx", DType::kInt32), table);
    tape.BackwardFrom(y, file.Load("dy", DType::kFloat32));
    EXPECT_EQ(y.ToHost<double>(), file.Doubles("y"));
    const std::vector<double> expected = file.Doubles("grad.weight");
    const std::vector<double> actual = table.grad()->value().ToHost<double>();
    ASSERT_EQ(actual.size(), expected.size());
    // Both are float32 sums of at most 15 terms, perhaps in another order.
    constexpr double kTolerance = 15 * 6e-8;
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(actual[i], expected[i], kTolerance * std::max(1.0, std::abs(expected[i])));
    }
  }
}

}  // namespace
}  // namespace tost::golden
