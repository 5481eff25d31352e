// What one run through a model is told: everything that is not weights or inputs.
#ifndef TOST_MODELS_PASS_H_
#define TOST_MODELS_PASS_H_

#include <functional>

#include "absl/strings/string_view.h"
#include "autograd/base/philox.h"
#include "autograd/tensor.h"
#include "ops/batch_norm.h"

namespace tost::models {

// Called with (block, name, tensor) at the points the paper names: "tokens" before a block's mixer,
// "mixer" after it, "mlp" after the MLP or "ista" after the sparse-coding step in its place.
using Probe = std::function<void(int block, absl::string_view name, const Tensor& value)>;

// An argument of every model call; there is no training mode to switch on and forget.
//   model.Loss(tokens, targets, pass)   draws its dropout masks from pass.random, in program order.
struct Pass {
  bool training = false;
  float dropout = 0;       // in effect only while training
  float drop_path = 0;     // probability of leaving a block's branch out for a sample; likewise
  bool recompute = false;  // keep only block inputs, run each block again in backward
  DType compute_dtype = DType::kFloat32;  // of activations and matrix operands
  RandomStream random;
  const Probe* probe = nullptr;
  ops::StatisticsSum statistics_sum;  // of batch norm over ranks

  float DropoutRate() const { return training ? dropout : 0.0f; }
  float DropPathRate() const { return training ? drop_path : 0.0f; }
};

}  // namespace tost::models

#endif  // TOST_MODELS_PASS_H_
