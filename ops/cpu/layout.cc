#include "ops/cpu/layout.h"

#include <algorithm>
#include <array>

#include "autograd/base/parallel.h"
#include "ops/cpu/dispatch.h"
#include "ops/merged_axes.h"

namespace tost::ops::cpu {
namespace {

template <class From, class To>
void CopyRun(const From* from, int64_t count, bool add, To* to) {
  using A = Accumulate<To>;
  if (add) {
    for (int64_t i = 0; i < count; ++i) {
      to[i] = static_cast<To>(static_cast<A>(to[i]) + static_cast<A>(from[i]));
    }
  } else {
    std::copy_n(from, count, to);
  }
}

// The result is cut into tiles of `rows` positions of the axis `across` by `columns` of the last
// axis.
struct PermuteTiles {
  int last, across;
  bool straight;  // the operand is contiguous along the last axis too
  int64_t rows, columns, count;
  std::array<int64_t, Shape::kMaxRank> tiles;

  explicit PermuteTiles(const PermutePlan& plan) : last(plan.rank - 1), tiles(plan.extents) {
    straight = plan.x_strides[last] == 1;
    across = std::max(0, last - 1);
    for (int i = 0; i < last && !straight; ++i) {
      if (plan.x_strides[i] == 1) across = i;
    }
    columns = std::min(straight ? kRun : kTile, plan.extents[last]);
    rows = across == last ? 1 : std::min(kTile, plan.extents[across]);
    tiles[last] = (plan.extents[last] + columns - 1) / columns;
    if (across != last) tiles[across] = (plan.extents[across] + rows - 1) / rows;
    count = 1;
    for (int i = 0; i < plan.rank; ++i) count *= tiles[i];
  }

  static constexpr int64_t kTile = 32, kRun = 4096;
};

// A transposed tile: read along the operand's contiguous axis, written along the result's, turned
// in a buffer between the two.
template <class From, class To>
void TransposeTile(const From* x, int64_t x_stride, int64_t rows, int64_t columns, bool add, To* y,
                   int64_t y_stride) {
  constexpr int64_t kTile = PermuteTiles::kTile;
  From tile[kTile][kTile + 1];
  for (int64_t column = 0; column < columns; ++column) {
    for (int64_t row = 0; row < rows; ++row) tile[row][column] = x[column * x_stride + row];
  }
  for (int64_t row = 0; row < rows; ++row) CopyRun(tile[row], columns, add, y + row * y_stride);
}

template <class From, class To>
void RunPermute(const PermutePlan& plan, const From* x, bool add, To* y) {
  const PermuteTiles tiles(plan);
  ParallelFor(tiles.count, RowGrain(tiles.rows * tiles.columns), [&](int64_t tile, int64_t end) {
    for (; tile < end; ++tile) {
      int64_t rest = tile, rows = tiles.rows, columns = tiles.columns;
      const From* from = x;
      To* to = y;
      for (int i = tiles.last; i >= 0; --i) {
        int64_t index = rest % tiles.tiles[i];
        rest /= tiles.tiles[i];
        if (i == tiles.last) {
          index *= tiles.columns;
          columns = std::min(columns, plan.extents[i] - index);
        } else if (i == tiles.across) {
          index *= tiles.rows;
          rows = std::min(rows, plan.extents[i] - index);
        }
        from += index * plan.x_strides[i];
        to += index * plan.y_strides[i];
      }
      const int64_t x_row = plan.x_strides[tiles.across], y_row = plan.y_strides[tiles.across];
      if (tiles.straight) {
        for (int64_t row = 0; row < rows; ++row) {
          CopyRun(from + row * x_row, columns, add, to + row * y_row);
        }
      } else {
        TransposeTile(from, plan.x_strides[tiles.last], rows, columns, add, to, y_row);
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
  Dispatch(x.dtype(), y.dtype(), [&](auto from, auto to) {
    RunPermute(plan, x.data<decltype(from)>(), add, y.mutable_data<decltype(to)>());
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
        CopyRun(source + row * x_row, run, add, target + row * y_row);
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
                      CopyRun(source + (outer * count + i) * inner + column,
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
