// TSSA on the CPU. ops/tssa.h has the formulas.
#ifndef TOST_OPS_CPU_TSSA_H_
#define TOST_OPS_CPU_TSSA_H_

#include "ops/tssa.h"

namespace tost::ops::cpu {

void Tssa(const TssaInputs& in, Tensor& y, TssaSaved& saved);
void TssaBackward(const TssaInputs& in, const TssaSaved& saved, const Tensor& dy,
                  const TssaGradients& gradients);
void CausalTssa(const TssaInputs& in, CausalTssaState* state, Tensor& y, TssaSaved& saved);
void CausalTssaBackward(const TssaInputs& in, const TssaSaved& saved, const Tensor& dy,
                        const TssaGradients& gradients);
void CausalTssaStep(const TssaInputs& in, CausalTssaState& state, Tensor& y);

}  // namespace tost::ops::cpu

#endif  // TOST_OPS_CPU_TSSA_H_
