// The two TSSA operators against the official modules' values.
#include <cmath>
#include <functional>
#include <vector>

#include "autograd/tape.h"
#include "gtest/gtest.h"
#include "ops/tssa.h"
#include "tests/golden/golden.h"

namespace tost {
namespace {

using golden::ExpectGolden;
using golden::GoldenBounds;
using golden::GoldenFile;
using golden::GoldenFiles;

// [B, H, X, d] → [B, X, H·d].
std::vector<double> HeadsLast(const std::vector<double>& x, int64_t batch, int64_t heads,
                              int64_t rows, int64_t d) {
  std::vector<double> y(x.size());
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t t = 0; t < rows; ++t) {
        for (int64_t i = 0; i < d; ++i) {
          y[static_cast<size_t>(((b * rows + t) * heads + h) * d + i)] =
              x[static_cast<size_t>(((b * heads + h) * rows + t) * d + i)];
        }
      }
    }
  }
  return y;
}

// The file's keep mask as the operator takes it: multipliers of g, or undefined.
Tensor MaskOf(const GoldenFile& file, DType dtype) {
  if (!file.Has("attn_mask")) return {};
  const Shape shape = file.ShapeOf("attn_mask");
  std::vector<double> mask =
      HeadsLast(file.Doubles("attn_mask"), shape[0], shape[1], shape[2], shape[3]);
  for (double& value : mask) value /= file.Number("keep_prob");
  const Tensor exact = Tensor::FromHost({shape[0], shape[2], shape[1] * shape[3]}, mask);
  return dtype == DType::kFloat64 ? exact : Converted(exact, dtype);
}

// Π [B, H, T] of the file against ours, [B, T, H].
void ExpectMemberships(const GoldenFile& file, const Tensor& ours) {
  const int64_t batch = ours.shape()[0], tokens = ours.shape()[1], heads = ours.shape()[2];
  std::vector<double> truth = HeadsLast(file.Doubles("pi.f64"), batch, heads, tokens, 1);
  const std::vector<double> values = ours.ToHost<double>();
  ASSERT_EQ(values.size(), truth.size());
  const double allowed = ours.dtype() == DType::kFloat64 ? 1e-12 : 4e-6;  // of memberships <= 1
  for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], truth[i], allowed) << i;
}

// Runs an operator on w, temp and possibly denom_bias of the file and compares y and all gradients.
void CheckOperator(const GoldenFile& file, DType dtype, bool causal) {
  SCOPED_TRACE(file.name());
  const Tensor w = Leaf(file.Load("w", dtype)), temp = Leaf(file.Load("temp", dtype));
  const Tensor bias = causal ? Leaf(file.Load("denom_bias", dtype)) : Tensor();
  const Tensor mask = MaskOf(file, dtype);
  Tape tape;
  const Tensor y = causal ? ops::CausalTssa(w, temp, bias, mask) : ops::Tssa(w, temp, mask);
  tape.BackwardFrom(y, file.Load("dy", dtype));
  ExpectGolden(file, "y", y);
  ExpectGolden(file, "dw", w.grad()->value());
  ExpectGolden(file, "dtemp", temp.grad()->value());
  if (causal) ExpectGolden(file, "ddenom_bias", bias.grad()->value());
  ExpectMemberships(
      file, causal ? ops::CausalTssaMemberships(w, temp, bias) : ops::TssaMemberships(w, temp));
}

TEST(TssaGolden, Float64) {
  for (const GoldenFile& file : GoldenFiles("tssa_op_"))
    CheckOperator(file, DType::kFloat64, false);
}

TEST(TssaGolden, Float32) {
  for (const GoldenFile& file : GoldenFiles("tssa_op_"))
    CheckOperator(file, DType::kFloat32, false);
}

TEST(CausalTssaGolden, Float64) {
  for (const GoldenFile& file : GoldenFiles("causal_op_"))
    CheckOperator(file, DType::kFloat64, true);
}

TEST(CausalTssaGolden, Float32) {
  for (const GoldenFile& file : GoldenFiles("causal_op_"))
    CheckOperator(file, DType::kFloat32, true);
}

}  // namespace
}  // namespace tost
