// CPU kernels of ops/loss.h.
#ifndef TOST_OPS_CPU_LOSS_H_
#define TOST_OPS_CPU_LOSS_H_

#include "ops/loss.h"

namespace tost::ops::cpu {

CrossEntropyFn CrossEntropy;
CrossEntropyBackwardFn CrossEntropyBackward;
CountTargetsFn CountTargets;
SoftCrossEntropyFn SoftCrossEntropy;
SoftCrossEntropyBackwardFn SoftCrossEntropyBackward;
ProjectedCrossEntropyFn ProjectedCrossEntropy;
ScaleGradientFn ScaleGradient;
SumLossesFn SumLosses;

}  // namespace tost::ops::cpu

#endif  // TOST_OPS_CPU_LOSS_H_
