// Ops that move elements and compute nothing. Axes may be negative, counted from the end.
#ifndef TOST_OPS_LAYOUT_H_
#define TOST_OPS_LAYOUT_H_

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "autograd/tensor.h"
#include "ops/cpu/layout.h"
#include "ops/kernel.h"

namespace tost::ops {

// The same elements under other extents, one of which may be −1: whatever the others leave. Shares
// the buffer and the gradient; nothing is copied.
Tensor Reshape(const Tensor& x, Shape shape);

// Extent k of the result is extent axes[k] of x: Permute(x, {0, 2, 1, 3}).
Tensor Permute(const Tensor& x, const std::vector<int>& axes);
// Swaps the last two axes.
Tensor Transpose(const Tensor& x);

// x repeated to `shape`, aligned at the last axis as in elementwise ops.
Tensor BroadcastTo(const Tensor& x, const Shape& shape);

// The parts one after the other along `axis`; their other extents agree.
Tensor Concat(const std::vector<Tensor>& parts, int axis);
// The inverse: parts of the given extents along `axis`, which must add up to x's.
std::vector<Tensor> Split(const Tensor& x, const std::vector<int64_t>& extents, int axis);
// Elements begin … end − 1 along `axis`.
Tensor Slice(const Tensor& x, int axis, int64_t begin, int64_t end);
// `before` and `after` zeros around x along `axis`.
Tensor Pad(const Tensor& x, int axis, int64_t before, int64_t after);

// y[…, i, …] = x[…, indices[i], …] along `axis`; indices int32 [k]. The gradients of elements
// selected more than once are added in the order of i.
Tensor IndexSelect(const Tensor& x, int axis, const Tensor& indices);

// y[…, i, …] = x[…, indices[…, i, …], …] along `axis`; indices int32, with the extents of x except
// along `axis`.
Tensor Gather(const Tensor& x, int axis, const Tensor& indices);

absl::StatusOr<Shape> ReshapeShape(const Shape& x, Shape shape);
absl::StatusOr<Shape> PermuteShape(const Shape& x, const std::vector<int>& axes);
absl::StatusOr<Shape> TransposeShape(const Shape& x);
absl::StatusOr<Shape> BroadcastToShape(const Shape& x, const Shape& shape);
absl::StatusOr<Shape> ConcatShape(std::span<const Shape> parts, int axis);
absl::Status CheckSplit(const Shape& x, const std::vector<int64_t>& extents, int axis);
absl::StatusOr<Shape> SliceShape(const Shape& x, int axis, int64_t begin, int64_t end);
absl::StatusOr<Shape> PadShape(const Shape& x, int axis, int64_t before, int64_t after);
absl::StatusOr<Shape> IndexSelectShape(const Shape& x, int axis, const Shape& indices);
absl::StatusOr<Shape> GatherShape(const Shape& x, int axis, const Shape& indices);

// What each does is said in ops/cpu/layout.h.
using PermuteFn = void(const Tensor& x, std::span<const int> axes, Tensor& y, bool add);
using cpu::AxisRange;
using CopyRangeFn = void(const AxisRange& range, const Tensor& x, Tensor& y, bool add);
using SelectFn = void(const Tensor& x, int axis, const Tensor& indices, Tensor& y);
extern Kernel<PermuteFn> permute_kernel;
extern Kernel<CopyRangeFn> copy_range_kernel;
extern Kernel<SelectFn> index_select_kernel;
extern Kernel<SelectFn> index_select_backward_kernel;
extern Kernel<SelectFn> gather_kernel;
extern Kernel<SelectFn> gather_backward_kernel;

}  // namespace tost::ops

#endif  // TOST_OPS_LAYOUT_H_
