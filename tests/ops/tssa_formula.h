// Both TSSA operators as the paper and the official code write them, in primitive ops: what the
// fused kernels must agree with in value and gradient. Nothing here is fast.
#ifndef TOST_TESTS_OPS_TSSA_FORMULA_H_
#define TOST_TESTS_OPS_TSSA_FORMULA_H_

#include <limits>

#include "autograd/tensor.h"
#include "ops/elementwise.h"
#include "ops/layout.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/tssa.h"

namespace tost::formula {

using namespace tost::ops;  // NOLINT: the formulas read better without prefixes

inline constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// w [B, N, C], temp [H, 1], mask [B, 1, C] or absent.
inline Tensor Tssa(const Tensor& w, const Tensor& temp, const Tensor& mask = {},
                   const TssaOptions& options = {}) {
  const int64_t B = w.shape()[0], N = w.shape()[1], C = w.shape()[2], H = temp.shape()[0];
  const Tensor x = Reshape(w, {B, N, H, C / H});

  const Tensor energy = Clamp(Sum(x * x, {1}, true), 1e-24, kNoLimit);         // [B, 1, H, d]
  const Tensor share = Sum(options.normalized ? x * x / energy : x * x, {3});  // [B, N, H]
  const Tensor pi = Reshape(Softmax(share * Reshape(temp, {H}), 2), {B, N, H, 1});
  const Tensor second = Sum(pi * x * x, {1}, true) / (Sum(pi, {1}, true) + 1e-8);
  Tensor attention = 1 / (1 + second);  // [B, 1, H, d]
  if (mask.defined()) attention = attention * Reshape(mask, {B, 1, H, C / H});
  return Reshape(-x * pi * attention, {B, N, C});
}

// w [B, T, C], temp [H, 1], denom_bias [H, block, 1], mask [B, T, C] or absent.
inline Tensor CausalTssa(const Tensor& w, const Tensor& temp, const Tensor& denom_bias,
                         const Tensor& mask = {}) {
  const int64_t B = w.shape()[0], T = w.shape()[1], C = w.shape()[2], H = temp.shape()[0];
  const Tensor x = Reshape(w, {B, T, H, C / H});
  const Tensor bias = Permute(Slice(denom_bias, 1, 0, T), {1, 0, 2});  // [T, H, 1]

  const Tensor energy = Clamp(Cumsum(x * x, 1), 1e-12, kNoLimit);  // [B, T, H, d]
  const Tensor share = Sum(x * x / energy + bias, {3});            // [B, T, H]
  const Tensor pi = Reshape(Softmax(share * Reshape(temp, {H}), 2), {B, T, H, 1});
  const Tensor second = Cumsum(pi * x * x, 1) / (Cumsum(pi, 1) + 1e-8);
  Tensor attention = 1 / (1 + second);  // [B, T, H, d]
  if (mask.defined()) attention = attention * Reshape(mask, {B, T, H, C / H});
  return Reshape(-x * pi * attention, {B, T, C});
}

}  // namespace tost::formula

#endif  // TOST_TESTS_OPS_TSSA_FORMULA_H_
