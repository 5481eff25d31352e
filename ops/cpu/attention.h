// CPU kernels of ops/attention.h.
#ifndef TOST_OPS_CPU_ATTENTION_H_
#define TOST_OPS_CPU_ATTENTION_H_

#include "ops/attention.h"

namespace tost::ops::cpu {

AttentionFn Attention;
AttentionBackwardFn AttentionBackward;
AttentionFillFn AttentionFill;
AttentionStepFn AttentionStep;

}  // namespace tost::ops::cpu

#endif  // TOST_OPS_CPU_ATTENTION_H_
