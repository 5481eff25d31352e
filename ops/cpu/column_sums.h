// Sums over rows in an order that the extents alone decide: every range of rows forms its own sums,
// and the ranges' sums are added in the order of their number.
#ifndef TOST_OPS_CPU_COLUMN_SUMS_H_
#define TOST_OPS_CPU_COLUMN_SUMS_H_

#include <algorithm>
#include <cstdint>

#include "autograd/base/parallel.h"
#include "autograd/tensor.h"

namespace tost::ops::cpu {

// Rows per range: enough work for a task, and at most 64 ranges whose sums must be added.
inline int64_t RowsPerRange(int64_t rows, int64_t columns) {
  constexpr int64_t kMostRanges = 64;
  return std::max(RowGrain(columns), (rows + kMostRanges - 1) / kMostRanges);
}

inline int64_t RangeCount(int64_t rows, int64_t columns) {
  const int64_t length = RowsPerRange(rows, columns);
  return std::max<int64_t>(1, (rows + length - 1) / length);
}

// out[c] = Σ_s partial[s, c], added to what is there when `add`. out: float32 or float64.
template <class A>
void AddRanges(const A* partial, int64_t ranges, int64_t columns, bool add, Tensor& out) {
  VisitFloat(out.dtype(), [&](auto zero) {
    using Out = decltype(zero);
    Out* __restrict target = out.mutable_data<Out>();
    ParallelFor(columns, 256, [&](int64_t begin, int64_t end) {
      A sums[256] = {};
      const int64_t count = end - begin;
      for (int64_t s = 0; s < ranges; ++s) {
        const A* __restrict row = partial + s * columns + begin;
        for (int64_t c = 0; c < count; ++c) sums[c] += row[c];
      }
      for (int64_t c = 0; c < count; ++c) {
        const A before = add ? static_cast<A>(target[begin + c]) : A(0);
        target[begin + c] = static_cast<Out>(before + sums[c]);
      }
    });
  });
}

}  // namespace tost::ops::cpu

#endif  // TOST_OPS_CPU_COLUMN_SUMS_H_
