// The two TSSA operators against the official modules' values.
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "autograd/tape.h"
#include "gtest/gtest.h"
#include "ops/elementwise.h"
#include "ops/layout.h"
#include "ops/linear.h"
#include "ops/reduce.h"
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
  const Tensor exact = golden::OnDevice({shape[0], shape[2], shape[1] * shape[3]}, mask);
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

// The operator is the negative gradient of the compression objective
//   G = Σ_b Σ_h ½ n_h Σ_i log(1 + (1/n_h) Σ_n Π w²),  n_h = Σ_n Π + 1e-8, Π held constant.
TEST(TssaGolden, OutputIsTheNegativeGradientOfTheObjective) {
  constexpr double kTolerance = 1e-13;  // double rounding of values of size 1
  for (const GoldenFile& file : GoldenFiles("tssa_objective")) {
    const int64_t B = file.Int("B"), N = file.Int("N"), H = file.Int("H"), d = file.Int("d");
    const Tensor w = Leaf(file.Load("w", DType::kFloat64));
    // The official run in float64 held temp as a float32 parameter.
    const Tensor temp = Converted(file.Load("temp", DType::kFloat32), DType::kFloat64);
    const Tensor y = ops::Tssa(w, temp);
    const Tensor pi = ops::TssaMemberships(w, temp).Reshaped({B, N, H, 1});

    Tape tape;
    const Tensor x = ops::Reshape(w, {B, N, H, d});
    const Tensor mass = ops::Sum(pi, {1}) + 1e-8;                               // [B, H, 1]
    const Tensor second = ops::Sum(pi * x * x, {1}) / mass;                     // [B, H, d]
    const Tensor objective = ops::Sum(0.5 * mass * ops::Log(1 + second), {2});  // [B, H]
    tape.Backward(ops::Sum(objective));

    const std::vector<double> ours = y.ToHost<double>(), official = file.Doubles("y");
    const std::vector<double> gradient = w.grad()->value().ToHost<double>();
    const std::vector<double> per_head = objective.ToHost<double>();
    for (size_t i = 0; i < ours.size(); ++i) {
      EXPECT_NEAR(ours[i], official[i], kTolerance);
      EXPECT_NEAR(ours[i], -gradient[i], kTolerance);
      EXPECT_NEAR(gradient[i], file.Doubles("dG_dw")[i], kTolerance);
    }
    for (size_t i = 0; i < per_head.size(); ++i) {
      EXPECT_NEAR(per_head[i], file.Doubles("G_per_head")[i], 10 * kTolerance);
    }
  }
}

// y_prefix[:, t] is the official output for the prefix that ends with t, state_* its running sums.
void CheckDecoding(const GoldenFile& file, DType dtype) {
  const int64_t B = file.Int("B"), T = file.Int("T"), H = file.Int("H"), d = file.Int("d"),
                C = H * d;
  const Tensor temp = file.Load("temp", dtype), bias = file.Load("denom_bias", dtype);
  const std::vector<double> w = file.Doubles("w"), y_prefix = file.Doubles("y_prefix.f64");
  const auto energy = HeadsLast(file.Doubles("state_sum_w2.f64"), B, H, T, d);
  const auto weighted = HeadsLast(file.Doubles("state_sum_piw2.f64"), B, H, T, d);
  const auto mass = HeadsLast(file.Doubles("state_sum_pi.f64"), B, H, T, 1);
  const double tolerance = dtype == DType::kFloat64 ? 1e-12 : 1e-5;  // of sums up to 30
  auto state = ops::CausalTssaState::Zeros(B, H, d, dtype, golden::TestDevice());
  const auto expect_row = [&](const Tensor& ours, const std::vector<double>& all, int64_t t) {
    const std::vector<double> values = ours.ToHost<double>();
    const int64_t columns = ours.numel() / B;
    for (int64_t i = 0; i < ours.numel(); ++i) {
      const int64_t at = (i / columns * T + t) * columns + i % columns;
      EXPECT_NEAR(values[static_cast<size_t>(i)], all[static_cast<size_t>(at)], tolerance);
    }
  };
  for (int64_t t = 0; t < T; ++t) {
    std::vector<double> token;
    for (int64_t b = 0; b < B; ++b) {
      token.insert(token.end(), w.begin() + (b * T + t) * C, w.begin() + (b * T + t + 1) * C);
    }
    const Tensor w_t = Converted(golden::OnDevice({B, C}, token), dtype);
    expect_row(ops::CausalTssaStep(state, w_t, temp, bias, t), y_prefix, t);
    expect_row(state.energy, energy, t);
    expect_row(state.weighted_energy, weighted, t);
    expect_row(state.membership, mass, t);
  }
}

TEST(CausalTssaGolden, Decoding) {
  for (const GoldenFile& file : GoldenFiles("causal_decode")) {
    SCOPED_TRACE(file.name());
    CheckDecoding(file, DType::kFloat64);
    CheckDecoding(file, DType::kFloat32);
    CheckOperator(file, DType::kFloat64, true);
    CheckOperator(file, DType::kFloat32, true);
  }
}

// Projection, operator, projection, with the official parameter names.
void CheckModule(const GoldenFile& file, DType dtype, bool causal) {
  SCOPED_TRACE(file.name());
  std::map<std::string, Tensor> parameters;
  for (const std::string& name : file.TensorNames()) {
    if (name.rfind("param.", 0) == 0) parameters[name.substr(6)] = Leaf(file.Load(name, dtype));
  }
  const std::string in = causal ? "c_attn" : "qkv", out = causal ? "c_proj" : "to_out.0";
  const Tensor x = Leaf(file.Load("x", dtype));
  Tape tape;
  const Tensor w = ops::Linear(x, parameters.at(in + ".weight"), parameters.at(in + ".bias"));
  const Tensor y = causal ? ops::CausalTssa(w, parameters.at("temp"), parameters.at("denom_bias"))
                          : ops::Tssa(w, parameters.at("temp"));
  const Tensor result =
      ops::Linear(y, parameters.at(out + ".weight"), parameters.at(out + ".bias"));
  tape.BackwardFrom(result, file.Load("dy", dtype));
  ExpectGolden(file, "y", result);
  ExpectGolden(file, "dx", x.grad()->value());
  for (const auto& [name, parameter] : parameters) {
    ExpectGolden(file, "grad." + name, parameter.grad()->value());
  }
}

TEST(TssaGolden, Module) {
  for (const GoldenFile& file : GoldenFiles("tssa_module")) {
    CheckModule(file, DType::kFloat64, false);
    CheckModule(file, DType::kFloat32, false);
  }
}

TEST(CausalTssaGolden, Module) {
  for (const GoldenFile& file : GoldenFiles("causal_module")) {
    CheckModule(file, DType::kFloat64, true);
    CheckModule(file, DType::kFloat32, true);
  }
}

// w_bf16 holds the same numbers as w: the statistics must be those of float32, and only y and dw
// rounded to bfloat16.
TEST(TssaGolden, BFloat16InputRoundsNothingButTheResults) {
  for (const char* kind : {"tssa_op_bf16in", "causal_op_bf16in"}) {
    const bool causal = *kind == 'c';
    for (const GoldenFile& file : GoldenFiles(kind)) {
      SCOPED_TRACE(file.name());
      const auto run = [&](DType dtype) {
        const Tensor w = file.Load("w_bf16", dtype), temp = file.Load("temp", DType::kFloat32);
        return causal ? ops::CausalTssa(w, temp, file.Load("denom_bias", DType::kFloat32))
                      : ops::Tssa(w, temp);
      };
      const Tensor y = run(DType::kFloat32);
      ExpectGolden(file, "y", y);
      EXPECT_EQ(run(DType::kBFloat16).ToHost(), Converted(y, DType::kBFloat16).ToHost());
    }
  }
}

}  // namespace
}  // namespace tost
