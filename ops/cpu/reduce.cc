#include "ops/cpu/reduce.h"

#include <algorithm>

#include "autograd/base/parallel.h"
#include "ops/cpu/broadcast_map.h"
#include "ops/cpu/dispatch.h"
#include "ops/cpu/fold.h"
#include "ops/merged_axes.h"
#include "ops/reduce_functors.h"

namespace tost::ops::cpu {
namespace {

// A reduction is cut into parts of this many elements, each summed by one task; the partial results
// are then combined in order. The cut depends on the shape only, and so do the bits of the result.
constexpr int64_t kPartElements = 32768;
constexpr int64_t kColumns = 512;   // widest strip of results that one task keeps in cache
constexpr int64_t kSegment = 8192;  // longest piece of a contiguous run

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The reduced rows of a plan, cut into parts.
struct Parts {
  int64_t rows, rows_per_part, count;
  Parts(int64_t all_rows, int64_t row_elements)
      : rows(all_rows),
        rows_per_part(std::max<int64_t>(1, kPartElements / std::max<int64_t>(1, row_elements))),
        count(CeilDivide(all_rows, rows_per_part)) {}
  int64_t begin(int64_t part) const { return part * rows_per_part; }
  int64_t end(int64_t part) const { return std::min(rows, (part + 1) * rows_per_part); }
};

template <class F, class T, class A>
A ReduceRun(const T* x, int64_t count, A center) {
  return Fold<A>(
      count, F::template Identity<A>(),
      [=](int64_t i) { return F::Map(static_cast<A>(x[i]), center); },
      [](A a, A b) { return F::Combine(a, b); });
}

// The innermost run is kept: a task reduces a strip of columns over a part of the rows.
// partial[part, output].
template <class F, class T, class A>
Tensor ReduceColumns(const ReducePlan& plan, const T* x, const A* center) {
  const int64_t width = std::min(kColumns, plan.inner);
  const int64_t strips = CeilDivide(plan.inner, std::max<int64_t>(1, width));
  const int64_t outputs = plan.outputs();
  const Parts parts(plan.reduced.count(), width);
  Tensor partial = Tensor::Empty({parts.count, outputs}, kDTypeOf<A>);
  A* const results = partial.mutable_data<A>();
  const int64_t grain = RowGrain(std::min(parts.rows, parts.rows_per_part) * width);
  ParallelFor(plan.kept.count() * strips * parts.count, grain, [&](int64_t task, int64_t end) {
    for (; task < end; ++task) {
      const int64_t part = task % parts.count, strip = task / parts.count % strips;
      const int64_t outer = task / parts.count / strips;
      const int64_t first = outer * plan.inner + strip * width;
      const int64_t columns = std::min(width, plan.inner - strip * width);
      const T* const origin = x + plan.kept.Offset(outer) + strip * width;
      A column[kColumns];
      std::fill_n(column, columns, F::template Identity<A>());
      for (int64_t row = parts.begin(part); row < parts.end(part); ++row) {
        const T* const values = origin + plan.reduced.Offset(row);
        for (int64_t i = 0; i < columns; ++i) {
          const A c = F::kCentered ? center[first + i] : A(0);
          column[i] = F::Combine(column[i], F::Map(static_cast<A>(values[i]), c));
        }
      }
      std::copy_n(column, columns, results + part * outputs + first);
    }
  });
  return partial;
}

// The innermost run is reduced: a task reduces a part of the rows of one output to a number. Long
// runs count as several rows.
template <class F, class T, class A>
Tensor ReduceRows(const ReducePlan& plan, const T* x, const A* center) {
  const int64_t segments = CeilDivide(plan.inner, kSegment);
  const int64_t outputs = plan.outputs();
  const Parts parts(plan.reduced.count() * segments, std::min(plan.inner, kSegment));
  Tensor partial = Tensor::Empty({parts.count, outputs}, kDTypeOf<A>);
  A* const results = partial.mutable_data<A>();
  const int64_t grain =
      RowGrain(std::min(parts.rows, parts.rows_per_part) * std::min(plan.inner, kSegment));
  ParallelFor(outputs * parts.count, grain, [&](int64_t task, int64_t end) {
    for (; task < end; ++task) {
      const int64_t part = task % parts.count, output = task / parts.count;
      const T* const origin = x + plan.kept.Offset(output);
      const A c = F::kCentered ? center[output] : A(0);
      A result = F::template Identity<A>();
      for (int64_t row = parts.begin(part); row < parts.end(part); ++row) {
        const int64_t first = row % segments * kSegment;
        const T* const run = origin + plan.reduced.Offset(row / segments) + first;
        result = F::Combine(result, ReduceRun<F>(run, std::min(kSegment, plan.inner - first), c));
      }
      results[part * outputs + output] = result;
    }
  });
  return partial;
}

// out = scale · (the partial results combined in order).
template <class F, class A, class Out>
void CombineParts(const Tensor& partial, double scale, Out* out, bool add) {
  const int64_t parts = partial.shape()[0], outputs = partial.shape()[1];
  const A* const values = partial.data<A>();
  ParallelFor(outputs, RowGrain(parts), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      A result = F::template Identity<A>();
      for (int64_t part = 0; part < parts; ++part) {
        result = F::Combine(result, values[part * outputs + i]);
      }
      result *= static_cast<A>(scale);
      const A before = add ? static_cast<A>(out[i]) : A(0);
      out[i] = static_cast<Out>(before + result);
    }
  });
}

}  // namespace

template <class F>
void Reduce(const Tensor& x, const Tensor& center, double scale, Tensor& out, bool add) {
  const ReducePlan plan(x.shape(), out.shape());
  VisitFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    const A* const centers = F::kCentered ? center.data<A>() : nullptr;
    const Tensor partial = plan.inner_kept ? ReduceColumns<F>(plan, x.data<T>(), centers)
                                           : ReduceRows<F>(plan, x.data<T>(), centers);
    VisitFloat(out.dtype(), [&](auto result) {
      CombineParts<F, A>(partial, scale, out.mutable_data<decltype(result)>(), add);
    });
  });
}

template <class F>
void ReduceBackward(const Tensor& x, const Tensor& center, const Tensor& weight, Tensor& dx,
                    bool add) {
  VisitFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    VisitResult<T>(dx.dtype(), [&](auto out) {
      BroadcastMap(
          x.shape(), [](auto value, auto c, auto w) { return w * F::Slope(value, c); }, add,
          dx.mutable_data<decltype(out)>(), Read<T>(x), Read<A>(center), Read<A>(weight));
    });
  });
}

namespace {

// x and y are [rows, extent].
template <class T, class Out>
void CumsumRows(const T* x, int64_t rows, int64_t extent, bool reverse, bool add, Out* y) {
  using A = Accumulate<T>;
  const int64_t step = reverse ? -1 : 1;
  ParallelFor(rows, RowGrain(extent), [&](int64_t row, int64_t end) {
    for (; row < end; ++row) {
      int64_t i = row * extent + (reverse ? extent - 1 : 0);
      A sum = 0;
      for (int64_t count = 0; count < extent; ++count, i += step) {
        sum += static_cast<A>(x[i]);
        y[i] = static_cast<Out>(sum + (add ? static_cast<A>(y[i]) : A(0)));
      }
    }
  });
}

// x and y are [outer, extent, inner]; a task walks the axis for a strip of inner positions.
template <class T, class Out>
void CumsumStrips(const T* x, int64_t outer, int64_t extent, int64_t inner, bool reverse, bool add,
                  Out* y) {
  using A = Accumulate<T>;
  const int64_t width = std::min(kColumns, inner), strips = CeilDivide(inner, kColumns);
  ParallelFor(outer * strips, RowGrain(extent * width), [&](int64_t task, int64_t end) {
    for (; task < end; ++task) {
      const int64_t first = task / strips * extent * inner + task % strips * width;
      const int64_t columns = std::min(width, inner - task % strips * width);
      A sum[kColumns];
      std::fill_n(sum, columns, A(0));
      for (int64_t step = 0; step < extent; ++step) {
        const int64_t row = first + (reverse ? extent - 1 - step : step) * inner;
        for (int64_t i = 0; i < columns; ++i) {
          sum[i] += static_cast<A>(x[row + i]);
          const A before = add ? static_cast<A>(y[row + i]) : A(0);
          y[row + i] = static_cast<Out>(before + sum[i]);
        }
      }
    }
  });
}

}  // namespace

void Cumsum(const Tensor& x, int axis, bool reverse, Tensor& y, bool add) {
  const Shape& shape = x.shape();
  VisitFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    VisitResult<T>(y.dtype(), [&](auto out) {
      auto* const sums = y.mutable_data<decltype(out)>();
      const int64_t outer = shape.Before(axis), extent = shape[axis], inner = shape.After(axis);
      if (inner == 1) {
        CumsumRows(x.data<T>(), outer, extent, reverse, add, sums);
      } else {
        CumsumStrips(x.data<T>(), outer, extent, inner, reverse, add, sums);
      }
    });
  });
}

template void Reduce<functor::Total>(const Tensor&, const Tensor&, double, Tensor&, bool);
template void Reduce<functor::Largest>(const Tensor&, const Tensor&, double, Tensor&, bool);
template void Reduce<functor::CountEqual>(const Tensor&, const Tensor&, double, Tensor&, bool);
template void Reduce<functor::SquaredDeviation>(const Tensor&, const Tensor&, double, Tensor&,
                                                bool);
template void Reduce<functor::SumOfExponentials>(const Tensor&, const Tensor&, double, Tensor&,
                                                 bool);
template void ReduceBackward<functor::Largest>(const Tensor&, const Tensor&, const Tensor&, Tensor&,
                                               bool);
template void ReduceBackward<functor::SquaredDeviation>(const Tensor&, const Tensor&, const Tensor&,
                                                        Tensor&, bool);
template void ReduceBackward<functor::SumOfExponentials>(const Tensor&, const Tensor&,
                                                         const Tensor&, Tensor&, bool);

}  // namespace tost::ops::cpu
