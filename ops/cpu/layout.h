// Copies between layouts on the CPU. All work for the floating dtypes; a result may be of the
// operand's accumulation dtype, for gradients. `add` adds to what is there.
#ifndef TOST_OPS_CPU_LAYOUT_H_
#define TOST_OPS_CPU_LAYOUT_H_

#include <span>

#include "autograd/tensor.h"

namespace tost::ops::cpu {

// y[i_0, i_1, …] = x with extent axes[k] of x as extent k of y.
void Permute(const Tensor& x, std::span<const int> axes, Tensor& y, bool add);

// Along `axis`, y[…, y_begin + i, …] = x[…, x_begin + i, …] for i < count. The other extents agree.
struct AxisRange {
  int axis;
  int64_t x_begin, y_begin, count;
};
void CopyRange(const AxisRange& range, const Tensor& x, Tensor& y, bool add);

// y[…, i, …] = x[…, indices[i], …] along `axis`; CHECKs the indices.
void IndexSelect(const Tensor& x, int axis, const Tensor& indices, Tensor& y);
// dx[…, indices[i], …] += dy[…, i, …], in the order of i.
void IndexSelectBackward(const Tensor& dy, int axis, const Tensor& indices, Tensor& dx);

// y[…, i, …] = x[…, indices[…, i, …], …] along `axis`; CHECKs the indices.
void Gather(const Tensor& x, int axis, const Tensor& indices, Tensor& y);
// dx[…, indices[…, i, …], …] += dy[…, i, …], in the order of i.
void GatherBackward(const Tensor& dy, int axis, const Tensor& indices, Tensor& dx);

}  // namespace tost::ops::cpu

#endif  // TOST_OPS_CPU_LAYOUT_H_
