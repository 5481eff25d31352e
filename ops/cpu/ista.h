// CPU kernels of ops/ista.h, where their meaning is written.
#ifndef TOST_OPS_CPU_ISTA_H_
#define TOST_OPS_CPU_ISTA_H_

#include "autograd/tensor.h"

namespace tost::ops {

struct IstaOptions;

namespace cpu {

void IstaResidual(const Tensor& z, Tensor& x);
void IstaThreshold(const IstaOptions& options, const Tensor& z, Tensor& m);
void IstaGradient(const IstaOptions& options, const Tensor& y, const Tensor& dy, Tensor& g);
void IstaCombine(const Tensor& y, const Tensor& dy, const Tensor& n, const Tensor& e, bool add,
                 Tensor& dz);

}  // namespace cpu
}  // namespace tost::ops

#endif  // TOST_OPS_CPU_ISTA_H_
