// The arithmetic of optimizers over flat tensors. No gradient flows through any of it, and the host
// waits for none of it: what an update decides by its gradient's norm (clipping, whether to go on
// at all) stays on the device.
//
//   Tensor squares = Tensor::Empty({}, DType::kFloat64, device);
//   SquaredNorm(gradient, /*add=*/false, squares);
//   BeginUpdate({.clip_norm = 1, .beta1 = 0.9, .beta2 = 0.95}, squares, update);
//   AdamW({.learning_rate = 1e-3, .beta1 = 0.9, .beta2 = 0.95}, update, gradient, value, m, v, {});
#ifndef TOST_OPS_OPTIMIZER_KERNELS_H_
#define TOST_OPS_OPTIMIZER_KERNELS_H_

#include <cstdint>

#include "autograd/tensor.h"
#include "ops/kernel.h"
#include "ops/optimizer_functors.h"

namespace tost::ops {

// sum (+)= Σ x², a float64 scalar on x's device, formed in double over fixed ranges that are then
// added in order.
void SquaredNorm(const Tensor& x, bool add, Tensor& sum);

// UpdateScalars before the first update, after so many.
Tensor NewUpdateScalars(Device device, int64_t updates = 0);
// Copies them to the host; synchronises.
UpdateScalars ReadUpdateScalars(const Tensor& update);

// Brings `update` (UpdateScalars) to the next update, whose gradient has the squared norm
// `squares`.
void BeginUpdate(const UpdateRule& rule, const Tensor& squares, Tensor& update);

// One step (ops/optimizer_functors.h), or none where `update` is not finite. value, first (m),
// second (v) and gradient have the same number of elements and one dtype, float32 or float64.
// `compute` is undefined or receives the new value in bfloat16.
void AdamW(const AdamWStep& options, const Tensor& update, const Tensor& gradient, Tensor& value,
           Tensor& first, Tensor& second, Tensor& compute);

// Likewise.
void Sgd(const SgdStep& options, const Tensor& update, const Tensor& gradient, Tensor& value,
         Tensor& momentum, Tensor& compute);

// average ← decay · average + (1 − decay) · value, unless `update` is defined and not finite.
void ExponentialMovingAverage(double decay, const Tensor& update, const Tensor& value,
                              Tensor& average);

// ---- Kernel slots: the functions above ----

using SquaredNormFn = void(const Tensor& x, bool add, Tensor& sum);
using BeginUpdateFn = void(const UpdateRule& rule, const Tensor& squares, Tensor& update);
using AdamWFn = void(const AdamWStep& options, const Tensor& update, const Tensor& gradient,
                     Tensor& value, Tensor& first, Tensor& second, Tensor& compute);
using SgdFn = void(const SgdStep& options, const Tensor& update, const Tensor& gradient,
                   Tensor& value, Tensor& momentum, Tensor& compute);
using ExponentialMovingAverageFn = void(double decay, const Tensor& update, const Tensor& value,
                                        Tensor& average);
extern Kernel<SquaredNormFn> squared_norm_kernel;
extern Kernel<BeginUpdateFn> begin_update_kernel;
extern Kernel<AdamWFn> adamw_kernel;
extern Kernel<SgdFn> sgd_kernel;
extern Kernel<ExponentialMovingAverageFn> exponential_moving_average_kernel;

}  // namespace tost::ops

#endif  // TOST_OPS_OPTIMIZER_KERNELS_H_
