// The arithmetic of optimizers over flat tensors. No gradient flows through any of it.
#ifndef TOST_OPS_OPTIMIZER_KERNELS_H_
#define TOST_OPS_OPTIMIZER_KERNELS_H_

#include <cstdint>

#include "autograd/tensor.h"
#include "ops/kernel.h"

namespace tost::ops {

// Σ x², formed in double over fixed ranges that are then added in order.
double SquaredNorm(const Tensor& x);

// One step of AdamW (Loshchilov and Hutter, 2019; torch.optim.AdamW), with ĝ = clip_factor · g:
//   p ← p (1 − lr · weight_decay)
//   m ← β1 m + (1 − β1) ĝ           v ← β2 v + (1 − β2) ĝ²
//   p ← p − lr / (1 − β1ᵗ) · m / (√v / √(1 − β2ᵗ) + ε)
// With weight_decay 0 this is Adam.
struct AdamWStep {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  double clip_factor = 1;
  int64_t step = 1;  // t, from 1
};

// value, first (m), second (v) and gradient have the same number of elements and one dtype, float32
// or float64. `compute` is undefined or receives the new value in bfloat16.
void AdamW(const AdamWStep& options, const Tensor& gradient, Tensor& value, Tensor& first,
           Tensor& second, Tensor& compute);

// SGD with momentum, as torch.optim.SGD without dampening, with ĝ = clip_factor · g + weight_decay
// · p:
//   b ← momentum · b + ĝ (b = ĝ at the first step, when `first_step`);  p ← p − lr · b
struct SgdStep {
  double learning_rate = 1e-2;
  double momentum = 0.9;
  double weight_decay = 0;
  double clip_factor = 1;
  bool first_step = false;
};
// `compute` as in AdamW.
void Sgd(const SgdStep& options, const Tensor& gradient, Tensor& value, Tensor& momentum,
         Tensor& compute);

// average ← decay · average + (1 − decay) · value.
void ExponentialMovingAverage(double decay, const Tensor& value, Tensor& average);

using SquaredNormFn = double(const Tensor& x);
using AdamWFn = void(const AdamWStep& options, const Tensor& gradient, Tensor& value, Tensor& first,
                     Tensor& second, Tensor& compute);
using SgdFn = void(const SgdStep& options, const Tensor& gradient, Tensor& value, Tensor& momentum,
                   Tensor& compute);
using ExponentialMovingAverageFn = void(double decay, const Tensor& value, Tensor& average);
extern Kernel<SquaredNormFn> squared_norm_kernel;
extern Kernel<AdamWFn> adamw_kernel;
extern Kernel<SgdFn> sgd_kernel;
extern Kernel<ExponentialMovingAverageFn> exponential_moving_average_kernel;

}  // namespace tost::ops

#endif  // TOST_OPS_OPTIMIZER_KERNELS_H_
