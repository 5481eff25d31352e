// CPU kernels of ops/cross_covariance_attention.h, where their meaning is written.
#ifndef TOST_OPS_CPU_CROSS_COVARIANCE_ATTENTION_H_
#define TOST_OPS_CPU_CROSS_COVARIANCE_ATTENTION_H_

#include "autograd/tensor.h"

namespace tost::ops {

struct CrossCovarianceDims;
struct CrossCovarianceSaved;

namespace cpu {

void CrossCovariance(const CrossCovarianceDims& dims, const Tensor& qkv, const Tensor& temperature,
                     Tensor& y, CrossCovarianceSaved& saved);
void CrossCovarianceBackward(const CrossCovarianceDims& dims, const Tensor& qkv,
                             const Tensor& temperature, const CrossCovarianceSaved& saved,
                             const Tensor& dy, bool add, Tensor* dqkv, Tensor& dtemperature);

}  // namespace cpu
}  // namespace tost::ops

#endif  // TOST_OPS_CPU_CROSS_COVARIANCE_ATTENTION_H_
