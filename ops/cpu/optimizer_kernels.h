// CPU kernels of ops/optimizer_kernels.h.
#ifndef TOST_OPS_CPU_OPTIMIZER_KERNELS_H_
#define TOST_OPS_CPU_OPTIMIZER_KERNELS_H_

#include "ops/optimizer_kernels.h"

namespace tost::ops::cpu {

SquaredNormFn SquaredNorm;
BeginUpdateFn BeginUpdate;
AdamWFn AdamW;
SgdFn Sgd;
ExponentialMovingAverageFn ExponentialMovingAverage;

}  // namespace tost::ops::cpu

#endif  // TOST_OPS_CPU_OPTIMIZER_KERNELS_H_
