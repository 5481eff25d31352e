// CPU kernels of ops/batch_norm.h, where their meaning is written.
#ifndef TOST_OPS_CPU_BATCH_NORM_H_
#define TOST_OPS_CPU_BATCH_NORM_H_

#include "autograd/tensor.h"

namespace tost::ops::cpu {

void SquaredDeviations(const Tensor& x, const Tensor& mean, Tensor& sums);
void NormaliseChannels(const Tensor& x, const Tensor& mean, const Tensor& rstd,
                       const Tensor& weight, const Tensor& bias, Tensor& y);
void BatchNormGradientSums(const Tensor& x, const Tensor& mean, const Tensor& rstd,
                           const Tensor& dy, Tensor& sums);
void BatchNormBackward(const Tensor& x, const Tensor& mean, const Tensor& rstd,
                       const Tensor& weight, const Tensor& means, const Tensor& dy, bool add,
                       Tensor& dx);
void TrackStatistic(double momentum, double scale, const Tensor& value, Tensor& running);
void ReciprocalDeviation(double epsilon, const Tensor& variance, Tensor& rstd);

}  // namespace tost::ops::cpu

#endif  // TOST_OPS_CPU_BATCH_NORM_H_
