#include "ops/cpu/layout.h"

#include <algorithm>
#include <array>

#include "autograd/base/parallel.h"
#include "ops/cpu/dispatch.h"

namespace tost::ops::cpu {
namespace {

template <class From, class To>
void CopyRun(const From* from, int64_t from_stride, int64_t count, bool add, To* to) {
  using A = Accumulate<To>;
  if (add) {
    for (int64_t i = 0; i < count; ++i) {
      to[i] = static_cast<To>(static_cast<A>(to[i]) + static_cast<A>(from[i * from_stride]));
    }
  } else if (from_stride == 1) {
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<To>(from[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<To>(from[i * from_stride]);
  }
}

// The axes of the result of a permutation with the operand's strides, neighbours merged where the
// operand walks them in step, outermost first.
struct PermutePlan {
  int rank = 0;
  std::array<int64_t, Shape::kMaxRank> extents{}, x_strides{}, y_strides{};

  PermutePlan(const Shape& x, std::span<const int> axes) {
    for (int axis : axes) {
      const int64_t extent = x[axis], stride = x.After(axis);
      if (extent == 1) continue;
      if (rank > 0 && x_strides[rank - 1] == stride * extent) {
        extents[rank - 1] *= extent;
        x_strides[rank - 1] = stride;
      } else {
        extents[rank] = extent;
        x_strides[rank++] = stride;
      }
    }
    if (rank == 0) {
      extents[0] = x_strides[0] = 1;
      rank = 1;
    }
    int64_t stride = 1;
    for (int i = rank - 1; i >= 0; --i) {
      y_strides[i] = stride;
      stride *= extents[i];
    }
  }
};

// The result is cut into tiles along its last axis and along `across`, the axis in which the
// operand is contiguous: within a tile both the reads and the writes stay in cache.
template <class From, class To>
void PermuteTiles(const PermutePlan& plan, int across, const From* x, bool add, To* y) {
  constexpr int64_t kTile = 32;
  const int last = plan.rank - 1;
  const bool straight = across == last;
  const int64_t width = straight ? plan.extents[last] : std::min(kTile, plan.extents[last]);
  const int64_t height = straight ? 1 : std::min(kTile, plan.extents[across]);
  std::array<int64_t, Shape::kMaxRank> tiles = plan.extents;
  tiles[last] = (plan.extents[last] + width - 1) / width;
  if (!straight) tiles[across] = (plan.extents[across] + height - 1) / height;
  int64_t count = 1;
  for (int i = 0; i < plan.rank; ++i) count *= tiles[i];

  ParallelFor(count, RowGrain(width * height), [&](int64_t tile, int64_t end) {
    for (; tile < end; ++tile) {
      int64_t rest = tile, x_offset = 0, y_offset = 0, columns = width, rows = height;
      for (int i = plan.rank - 1; i >= 0; --i) {
        int64_t index = rest % tiles[i];
        rest /= tiles[i];
        if (i == last) {
          index *= width;
          columns = std::min(width, plan.extents[i] - index);
        } else if (i == across) {
          index *= height;
          rows = std::min(height, plan.extents[i] - index);
        }
        x_offset += index * plan.x_strides[i];
        y_offset += index * plan.y_strides[i];
      }
      for (int64_t row = 0; row < rows; ++row) {
        CopyRun(x + x_offset + row, plan.x_strides[last], columns, add,
                y + y_offset + row * plan.y_strides[across]);
      }
    }
  });
}

// Calls run(T{}, Out{}) with the element types of an operand and a result.
template <class Run>
void Dispatch(DType operand, DType result, Run&& run) {
  VisitFloat(operand, [&](auto from) {
    VisitResult<decltype(from)>(result, [&](auto to) { run(from, to); });
  });
}

void CheckIndices(const char* op, const Tensor& indices, int64_t extent) {
  const int32_t* const values = indices.data<int32_t>();
  for (int64_t i = 0; i < indices.numel(); ++i) {
    TOST_CHECK(values[i] >= 0 && values[i] < extent)
        << op << ": index " << values[i] << " at position " << i << " is outside [0, " << extent
        << ")";
  }
}

}  // namespace

void Permute(const Tensor& x, std::span<const int> axes, Tensor& y, bool add) {
  if (x.numel() == 0) return;
  const PermutePlan plan(x.shape(), axes);
  int across = plan.rank - 1;
  for (int i = 0; i < plan.rank; ++i) {
    if (plan.x_strides[i] == 1) across = i;
  }
  Dispatch(x.dtype(), y.dtype(), [&](auto from, auto to) {
    PermuteTiles(plan, across, x.data<decltype(from)>(), add, y.mutable_data<decltype(to)>());
  });
}

void CopyRange(const AxisRange& range, const Tensor& x, Tensor& y, bool add) {
  const int64_t outer = x.shape().Before(range.axis), inner = x.shape().After(range.axis);
  const int64_t run = range.count * inner;
  const int64_t x_row = x.shape()[range.axis] * inner, y_row = y.shape()[range.axis] * inner;
  Dispatch(x.dtype(), y.dtype(), [&](auto from, auto to) {
    const auto* const source = x.data<decltype(from)>() + range.x_begin * inner;
    auto* const target = y.mutable_data<decltype(to)>() + range.y_begin * inner;
    ParallelFor(outer, RowGrain(run), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        CopyRun(source + row * x_row, 1, run, add, target + row * y_row);
      }
    });
  });
}

void IndexSelect(const Tensor& x, int axis, const Tensor& indices, Tensor& y) {
  const int64_t extent = x.shape()[axis], inner = x.shape().After(axis);
  const int64_t count = indices.numel();
  CheckIndices("IndexSelect", indices, extent);
  const int32_t* const index = indices.data<int32_t>();
  VisitFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* const source = x.data<T>();
    T* const target = y.mutable_data<T>();
    ParallelFor(x.shape().Before(axis) * count, RowGrain(inner), [&](int64_t row, int64_t end) {
      for (; row < end; ++row) {
        const T* const from = source + (row / count * extent + index[row % count]) * inner;
        std::copy_n(from, inner, target + row * inner);
      }
    });
  });
}

void IndexSelectBackward(const Tensor& dy, int axis, const Tensor& indices, Tensor& dx) {
  const int64_t extent = dx.shape()[axis], inner = dx.shape().After(axis);
  const int64_t count = indices.numel();
  const int32_t* const index = indices.data<int32_t>();
  // A task owns a strip of inner positions of one outer index, and adds to it in the order of dy.
  const int64_t width = std::clamp<int64_t>(inner, 1, 128), strips = (inner + width - 1) / width;
  Dispatch(dy.dtype(), dx.dtype(), [&](auto from, auto to) {
    const auto* const source = dy.data<decltype(from)>();
    auto* const target = dx.mutable_data<decltype(to)>();
    ParallelFor(dx.shape().Before(axis) * strips, RowGrain(count * width),
                [&](int64_t task, int64_t end) {
                  for (; task < end; ++task) {
                    const int64_t outer = task / strips, column = task % strips * width;
                    for (int64_t i = 0; i < count; ++i) {
                      CopyRun(source + (outer * count + i) * inner + column, 1,
                              std::min(width, inner - column), /*add=*/true,
                              target + (outer * extent + index[i]) * inner + column);
                    }
                  }
                });
  });
}

void Gather(const Tensor& x, int axis, const Tensor& indices, Tensor& y) {
  const int64_t extent = x.shape()[axis], count = y.shape()[axis], inner = x.shape().After(axis);
  CheckIndices("Gather", indices, extent);
  const int32_t* const index = indices.data<int32_t>();
  VisitFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* const source = x.data<T>();
    T* const target = y.mutable_data<T>();
    ParallelFor(x.shape().Before(axis) * count, RowGrain(inner), [&](int64_t row, int64_t end) {
      for (; row < end; ++row) {
        const T* const from = source + row / count * extent * inner;
        for (int64_t i = 0; i < inner; ++i) {
          target[row * inner + i] = from[index[row * inner + i] * inner + i];
        }
      }
    });
  });
}

void GatherBackward(const Tensor& dy, int axis, const Tensor& indices, Tensor& dx) {
  const int64_t extent = dx.shape()[axis], count = dy.shape()[axis];
  const int64_t inner = dx.shape().After(axis);
  const int32_t* const index = indices.data<int32_t>();
  Dispatch(dy.dtype(), dx.dtype(), [&](auto from, auto to) {
    using To = decltype(to);
    const auto* const source = dy.data<decltype(from)>();
    To* const target = dx.mutable_data<To>();
    ParallelFor(dx.shape().Before(axis), RowGrain(count * inner), [&](int64_t outer, int64_t end) {
      for (; outer < end; ++outer) {
        for (int64_t i = outer * count * inner; i < (outer + 1) * count * inner; ++i) {
          To& sum = target[(outer * extent + index[i]) * inner + i % inner];
          sum = static_cast<To>(static_cast<Accumulate<To>>(sum) +
                                static_cast<Accumulate<To>>(source[i]));
        }
      }
    });
  });
}

}  // namespace tost::ops::cpu
