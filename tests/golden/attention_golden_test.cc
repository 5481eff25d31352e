// Softmax attention between its two projections, against the official modules' values.
#include "autograd/tape.h"
#include "gtest/gtest.h"
#include "ops/attention.h"
#include "ops/linear.h"
#include "tests/golden/golden.h"

namespace tost {
namespace {

using golden::ExpectGolden;
using golden::GoldenFile;
using golden::GoldenFiles;
using golden::Weight;

void CheckModule(const GoldenFile& file, DType dtype) {
  SCOPED_TRACE(file.name());
  // nanoGPT's names belong to the causal module, timm's to the other.
  const bool causal = file.Has("param.c_attn.weight");
  const std::string in = causal ? "c_attn" : "qkv", out = causal ? "c_proj" : "proj";
  const Weight w_in(file, in + ".weight", dtype), b_in(file, in + ".bias", dtype);
  const Weight w_out(file, out + ".weight", dtype), b_out(file, out + ".bias", dtype);
  const Tensor x = Leaf(file.Load("x", dtype));
  const int heads = static_cast<int>(file.Int("heads"));

  Tape tape;
  const Tensor qkv = ops::Linear(x, w_in.value, b_in.value);
  const Tensor y = ops::Linear(ops::Attention(qkv, {.heads = heads, .causal = causal}), w_out.value,
                               b_out.value);
  tape.BackwardFrom(y, file.Load("dy", dtype));

  ExpectGolden(file, "y", y);
  ExpectGolden(file, "dx", x.grad()->value());
  for (const Weight* weight : {&w_in, &b_in, &w_out, &b_out}) weight->ExpectGradient(file);
}

TEST(AttentionGolden, Float64) {
  for (const GoldenFile& file : GoldenFiles("mha")) CheckModule(file, DType::kFloat64);
}

TEST(AttentionGolden, Float32) {
  for (const GoldenFile& file : GoldenFiles("mha")) CheckModule(file, DType::kFloat32);
}

}  // namespace
}  // namespace tost
