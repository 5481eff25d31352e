#include "ops/layout.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "autograd/tape.h"
#include "ops/elementwise_kernels.h"
#include "ops/reduce.h"

namespace tost::ops {

constinit Kernel<PermuteFn> permute_kernel{"permute", &cpu::Permute};
constinit Kernel<CopyRangeFn> copy_range_kernel{"copy_range", &cpu::CopyRange};
constinit Kernel<SelectFn> index_select_kernel{"index_select", &cpu::IndexSelect};
constinit Kernel<SelectFn> index_select_backward_kernel{"index_select_backward",
                                                        &cpu::IndexSelectBackward};
constinit Kernel<SelectFn> gather_kernel{"gather", &cpu::Gather};
constinit Kernel<SelectFn> gather_backward_kernel{"gather_backward", &cpu::GatherBackward};

namespace {

template <class... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

absl::Status CheckAxis(const char* op, const Shape& x, int axis) {
  if (axis >= -x.rank() && axis < x.rank()) return absl::OkStatus();
  return Invalid(op, ": axis ", axis, " of a tensor ", x.ToString());
}

// Whether two shapes have equal extents except along `axis`, a number in [0, rank).
bool AgreeExcept(const Shape& a, const Shape& b, int axis) {
  if (a.rank() != b.rank()) return false;
  for (int i = 0; i < a.rank(); ++i) {
    if (i != axis && a[i] != b[i]) return false;
  }
  return true;
}

Tensor Like(const Tensor& x, const Shape& shape) {
  return Tensor::Empty(shape, x.dtype(), x.device());
}

void SetZero(Tensor& x) {
  RuntimeOf(x.device())
      .FillZero(x.mutable_raw(), static_cast<size_t>(x.numel()) * SizeOf(x.dtype()));
}

void CopyRange(const AxisRange& range, const Tensor& x, Tensor& y, bool add) {
  copy_range_kernel.On(x.device().type)(range, x, y, add);
}

// The gradient of picking elements by index: dx[index] += dy. Elements picked often would lose most
// of their sum in bfloat16, so it is formed in float.
void ScatterAdd(const KernelOn<SelectFn>& scatter, const Tensor& dy, int axis,
                const Tensor& indices, Tensor& dx, bool add) {
  const DType dtype = AccumulateDType(dx.dtype());
  if (dx.dtype() != dtype) {
    Tensor wide = Tensor::Zeros(dx.shape(), dtype, dx.device());
    scatter(dy, axis, indices, wide);
    return scaled_copy_kernel.On(dx.device().type)(1, wide, dx, add);
  }
  if (!add) SetZero(dx);
  scatter(dy, axis, indices, dx);
}

Tensor RecordSelect(const char* name, const KernelOn<SelectFn>& scatter, const Tensor& x, int axis,
                    const Tensor& indices, const Tensor& y) {
  Tape* tape = Tape::Current();
  if (tape == nullptr) return y;
  return tape->Record(
      name, {x.grad()}, y,
      [scatter, axis, x = SavedShape(x), indices = Saved(indices)](const Tensor& dy) {
        x.Gradient([&](Tensor& dx, bool add) { ScatterAdd(scatter, dy, axis, indices, dx, add); });
      });
}

}  // namespace

absl::StatusOr<Shape> ReshapeShape(const Shape& x, Shape shape) {
  const Shape asked = shape;
  int free_axis = -1;
  int64_t others = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] >= 0) {
      others *= shape[i];
    } else if (shape[i] == -1 && free_axis < 0) {
      free_axis = i;
    } else {
      return Invalid("Reshape: more than one extent of ", asked.ToString(), " is negative");
    }
  }
  if (free_axis >= 0 && others > 0) shape.set(free_axis, x.numel() / others);
  if (shape.numel() != x.numel()) {
    return Invalid("Reshape: ", x.numel(), " elements of ", x.ToString(), " do not fit ",
                   asked.ToString());
  }
  return shape;
}

absl::StatusOr<Shape> PermuteShape(const Shape& x, const std::vector<int>& axes) {
  Shape shape = x;
  std::vector<bool> seen(static_cast<size_t>(x.rank()), false);
  bool valid = static_cast<int>(axes.size()) == x.rank();
  for (int i = 0; valid && i < x.rank(); ++i) {
    const int axis = axes[static_cast<size_t>(i)];
    valid = CheckAxis("Permute", x, axis).ok() && !seen[static_cast<size_t>(x.Axis(axis))];
    if (!valid) break;
    seen[static_cast<size_t>(x.Axis(axis))] = true;
    shape.set(i, x[axis]);
  }
  if (valid) return shape;
  return Invalid("Permute: {", absl::StrJoin(axes, ", "), "} does not name each axis of ",
                 x.ToString(), " once");
}

absl::StatusOr<Shape> TransposeShape(const Shape& x) {
  if (x.rank() < 2) return Invalid("Transpose: ", x.ToString(), " has fewer than two axes");
  Shape shape = x;
  shape.set(-1, x[-2]);
  shape.set(-2, x[-1]);
  return shape;
}

absl::StatusOr<Shape> BroadcastToShape(const Shape& x, const Shape& shape) {
  const absl::StatusOr<Shape> common = BroadcastShape(x, shape);
  if (common.ok() && *common == shape) return shape;
  return Invalid("BroadcastTo: ", x.ToString(), " does not broadcast to ", shape.ToString());
}

absl::StatusOr<Shape> ConcatShape(std::span<const Shape> parts, int axis) {
  if (parts.empty()) return Invalid("Concat: no parts");
  TOST_RETURN_IF_ERROR(CheckAxis("Concat", parts[0], axis));
  Shape shape = parts[0];
  for (const Shape& part : parts.subspan(1)) {
    if (!AgreeExcept(parts[0], part, parts[0].Axis(axis))) {
      return Invalid("Concat: ", parts[0].ToString(), " and ", part.ToString(),
                     " differ outside axis ", axis);
    }
    shape.set(axis, shape[axis] + part[axis]);
  }
  return shape;
}

absl::Status CheckSplit(const Shape& x, const std::vector<int64_t>& extents, int axis) {
  TOST_RETURN_IF_ERROR(CheckAxis("Split", x, axis));
  int64_t sum = 0;
  bool valid = true;
  for (int64_t extent : extents) {
    sum += extent;
    valid = valid && extent >= 0;
  }
  if (valid && sum == x[axis]) return absl::OkStatus();
  return Invalid("Split: parts {", absl::StrJoin(extents, ", "), "} do not make up axis ", axis,
                 " of ", x.ToString());
}

absl::StatusOr<Shape> SliceShape(const Shape& x, int axis, int64_t begin, int64_t end) {
  TOST_RETURN_IF_ERROR(CheckAxis("Slice", x, axis));
  if (begin < 0 || begin > end || end > x[axis]) {
    return Invalid("Slice: [", begin, ", ", end, ") does not lie within axis ", axis, " of ",
                   x.ToString());
  }
  Shape shape = x;
  shape.set(axis, end - begin);
  return shape;
}

absl::StatusOr<Shape> PadShape(const Shape& x, int axis, int64_t before, int64_t after) {
  TOST_RETURN_IF_ERROR(CheckAxis("Pad", x, axis));
  if (before < 0 || after < 0) {
    return Invalid("Pad: ", before, " and ", after, " zeros around ", x.ToString());
  }
  Shape shape = x;
  shape.set(axis, before + x[axis] + after);
  return shape;
}

absl::StatusOr<Shape> IndexSelectShape(const Shape& x, int axis, const Shape& indices) {
  TOST_RETURN_IF_ERROR(CheckAxis("IndexSelect", x, axis));
  if (indices.rank() != 1) {
    return Invalid("IndexSelect: the indices ", indices.ToString(), " must have one axis (x ",
                   x.ToString(), ")");
  }
  Shape shape = x;
  shape.set(axis, indices[0]);
  return shape;
}

absl::StatusOr<Shape> GatherShape(const Shape& x, int axis, const Shape& indices) {
  TOST_RETURN_IF_ERROR(CheckAxis("Gather", x, axis));
  if (AgreeExcept(x, indices, x.Axis(axis))) return indices;
  return Invalid("Gather: indices ", indices.ToString(), " and x ", x.ToString(),
                 " differ outside axis ", axis);
}

Tensor Reshape(const Tensor& x, Shape shape) {
  return x.Reshaped(TOST_CHECK_VALUE(ReshapeShape(x.shape(), shape)));
}

Tensor Permute(const Tensor& x, const std::vector<int>& axes) {
  Tensor y = Like(x, TOST_CHECK_VALUE(PermuteShape(x.shape(), axes)));
  const auto permute = permute_kernel.On(x.device().type);
  permute(x, axes, y, /*add=*/false);

  Tape* tape = Tape::Current();
  if (tape == nullptr) return y;
  std::vector<int> inverse(axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    inverse[static_cast<size_t>(x.shape().Axis(axes[i]))] = static_cast<int>(i);
  }
  return tape->Record("permute", {x.grad()}, y,
                      [permute, inverse, x = SavedShape(x)](const Tensor& dy) {
                        x.Gradient([&](Tensor& dx, bool add) { permute(dy, inverse, dx, add); });
                      });
}

Tensor Transpose(const Tensor& x) {
  TOST_CHECK_VALUE(TransposeShape(x.shape()));
  std::vector<int> axes;
  for (int i = 0; i < x.shape().rank(); ++i) axes.push_back(i);
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  return Permute(x, axes);
}

Tensor BroadcastTo(const Tensor& x, const Shape& shape) {
  Tensor y = Like(x, TOST_CHECK_VALUE(BroadcastToShape(x.shape(), shape)));
  scaled_copy_kernel.On(x.device().type)(1, x, y, /*add=*/false);

  Tape* tape = Tape::Current();
  if (tape == nullptr) return y;
  return tape->Record("broadcast_to", {x.grad()}, y, [x = SavedShape(x)](const Tensor& dy) {
    x.Gradient([&](Tensor& dx, bool add) { ReduceTo(dy, dx, add); });
  });
}

Tensor Concat(const std::vector<Tensor>& parts, int axis) {
  std::vector<Shape> shapes;
  for (const Tensor& part : parts) {
    TOST_CHECK(part.dtype() == parts[0].dtype())
        << "Concat: dtypes differ: " << parts[0].dtype() << " and " << part.dtype();
    shapes.push_back(part.shape());
  }
  const Shape shape = TOST_CHECK_VALUE(ConcatShape(shapes, axis));
  Tensor y = Like(parts[0], shape);
  std::vector<GradPtr> inputs;
  std::vector<SavedShape> saved;
  int64_t begin = 0;
  for (const Tensor& part : parts) {
    CopyRange({axis, 0, begin, part.shape()[axis]}, part, y, /*add=*/false);
    begin += part.shape()[axis];
    inputs.push_back(part.grad());
    saved.emplace_back(part);
  }
  Tape* tape = Tape::Current();
  if (tape == nullptr) return y;
  return tape->Record("concat", std::move(inputs), y,
                      [axis, parts = std::move(saved)](const Tensor& dy) {
                        int64_t first = 0;
                        for (const SavedShape& part : parts) {
                          const int64_t extent = part.shape()[axis];
                          part.Gradient([&](Tensor& dx, bool add) {
                            CopyRange({axis, first, 0, extent}, dy, dx, add);
                          });
                          first += extent;
                        }
                      });
}

std::vector<Tensor> Split(const Tensor& x, const std::vector<int64_t>& extents, int axis) {
  TOST_CHECK_OK(CheckSplit(x.shape(), extents, axis));
  std::vector<Tensor> parts;
  int64_t begin = 0;
  for (int64_t extent : extents) {
    parts.push_back(Slice(x, axis, begin, begin + extent));
    begin += extent;
  }
  return parts;
}

Tensor Slice(const Tensor& x, int axis, int64_t begin, int64_t end) {
  Tensor y = Like(x, TOST_CHECK_VALUE(SliceShape(x.shape(), axis, begin, end)));
  const int64_t count = end - begin;
  CopyRange({axis, begin, 0, count}, x, y, /*add=*/false);

  Tape* tape = Tape::Current();
  if (tape == nullptr) return y;
  return tape->Record("slice", {x.grad()}, y,
                      [axis, begin, count, x = SavedShape(x)](const Tensor& dy) {
                        x.Gradient([&](Tensor& dx, bool add) {
                          if (!add) SetZero(dx);
                          CopyRange({axis, 0, begin, count}, dy, dx, add);
                        });
                      });
}

Tensor Pad(const Tensor& x, int axis, int64_t before, int64_t after) {
  Tensor y = Like(x, TOST_CHECK_VALUE(PadShape(x.shape(), axis, before, after)));
  const int64_t count = x.shape()[axis];
  SetZero(y);
  CopyRange({axis, 0, before, count}, x, y, /*add=*/false);

  Tape* tape = Tape::Current();
  if (tape == nullptr) return y;
  return tape->Record(
      "pad", {x.grad()}, y, [axis, before, count, x = SavedShape(x)](const Tensor& dy) {
        x.Gradient([&](Tensor& dx, bool add) { CopyRange({axis, before, 0, count}, dy, dx, add); });
      });
}

Tensor IndexSelect(const Tensor& x, int axis, const Tensor& indices) {
  Tensor y = Like(x, TOST_CHECK_VALUE(IndexSelectShape(x.shape(), axis, indices.shape())));
  const DeviceType device = x.device().type;
  index_select_kernel.On(device)(x, axis, indices, y);
  return RecordSelect("index_select", index_select_backward_kernel.On(device), x, axis, indices, y);
}

Tensor Gather(const Tensor& x, int axis, const Tensor& indices) {
  Tensor y = Like(x, TOST_CHECK_VALUE(GatherShape(x.shape(), axis, indices.shape())));
  const DeviceType device = x.device().type;
  gather_kernel.On(device)(x, axis, indices, y);
  return RecordSelect("gather", gather_backward_kernel.On(device), x, axis, indices, y);
}

}  // namespace tost::ops
