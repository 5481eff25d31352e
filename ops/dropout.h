// Dropout and stochastic depth. Masks are functions of a key and a position, never stored:
//
//   multiplier(row, column) = Uniform(key, row, column) >= rate ? 1 / (1 − rate) : 0
//
// with row = the index along the leading axis (the sample) and column = the index within it. They
// depend neither on threads nor on how a batch is split: RandomKey::first_row places the part.
#ifndef TOST_OPS_DROPOUT_H_
#define TOST_OPS_DROPOUT_H_

#include "autograd/base/philox.h"
#include "autograd/tensor.h"
#include "ops/kernel.h"

namespace tost::ops {

// y = x · multiplier, elementwise. x: [rows, ...]. Rate in [0, 1); 0 returns x itself. Saves
// nothing: backward draws the same mask again.
Tensor Dropout(const Tensor& x, float rate, const RandomKey& key);

// Stochastic depth (Huang et al. 2016; timm's DropPath): y = x · multiplier(row, 0), so that a
// sample passes whole or not at all.
Tensor DropPath(const Tensor& x, float rate, const RandomKey& key);

// The multipliers themselves, for ops that apply a mask inside. A constant: no gradient flows.
Tensor DropoutMask(const Shape& shape, float rate, const RandomKey& key,
                   DType dtype = DType::kFloat32, Device device = Device::Cpu());

struct DropoutOptions {
  float rate = 0;
  RandomKey key;
  bool whole_rows = false;  // the multiplier of column 0 for all of a row
  bool add = false;         // add to y instead of setting it
};
// y = x · multiplier; an undefined x stands for ones.
using DropoutFn = void(const DropoutOptions& options, const Tensor& x, Tensor& y);
extern Kernel<DropoutFn> dropout_kernel;

}  // namespace tost::ops

#endif  // TOST_OPS_DROPOUT_H_
