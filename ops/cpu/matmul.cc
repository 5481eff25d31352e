#include "ops/cpu/matmul.h"

#include <array>
#include <vector>

#include "autograd/base/parallel.h"
#include "ops/cpu/broadcast_map.h"
#include "ops/cpu/dispatch.h"
#include "ops/cpu/gemm.h"

namespace tost::ops::cpu {
namespace {

Shape BatchOf(const Shape& shape) {
  return Shape(shape.extents().first(shape.extents().size() - 2));
}

// The products of a call: c[m, n] = op(a)[m, k] · op(b)[k, n] for `count` batch indices.
struct Products {
  int64_t m, n, k, count;
  BroadcastPlan<3> plan;  // operands a, b, c

  Products(MatmulForm form, const Shape& a, const Shape& b, const Shape& c, const Shape& batch)
      : m(c[-2]),
        n(c[-1]),
        k(form.transpose_a ? a[-2] : a[-1]),
        count(batch.numel()),
        plan(batch, {BatchOf(a), BatchOf(b), BatchOf(c)}) {
    // Matrices that lie one below the other are one taller matrix: as rows of a and c under one
    // common b, or, when the products are summed, as the inner extent of aᵀ and b.
    const int last = plan.rank - 1;
    const int64_t extent = plan.extents[last];
    const bool a_steps = !plan.Repeats(0), b_steps = !plan.Repeats(1), c_steps = !plan.Repeats(2);
    if (a_steps && !b_steps && c_steps && !form.transpose_a) {
      m *= extent;
    } else if (a_steps && b_steps && !c_steps && form.transpose_a && !form.transpose_b) {
      k *= extent;
    } else {
      return;
    }
    // What is left of the innermost axis is one block of `extent` matrices per index.
    count /= extent;
    plan.extents[last] = 1;
  }

  // How far, in matrices, operand k's lies from its first, for one batch index.
  std::array<int64_t, 3> Offsets(int64_t index) const {
    const RunCursor<3> cursor(plan, index / plan.inner());
    std::array<int64_t, 3> offsets;
    for (int i = 0; i < 3; ++i) {
      offsets[i] = cursor.offset(i) + index % plan.inner() * plan.strides[i][plan.rank - 1];
    }
    return offsets;
  }
  bool Sums() const {
    for (int axis = 0; axis < plan.rank; ++axis) {
      if (plan.extents[axis] > 1 && plan.strides[2][axis] == 0) return true;
    }
    return false;
  }
};

template <class T, class Out>
void Run(const Products& p, MatmulForm form, const Tensor& a, const Tensor& b, Tensor& c) {
  const int64_t a_columns = a.shape()[-1], b_columns = b.shape()[-1];
  const int64_t a_size = a.shape()[-2] * a_columns, b_size = b.shape()[-2] * b_columns;
  const int64_t c_size = c.shape()[-2] * c.shape()[-1];
  const T *const a_data = a.data<T>(), *const b_data = b.data<T>();
  Out* const c_data = c.mutable_data<Out>();
  auto multiply = [&](const std::array<int64_t, 3>& offsets, bool add) {
    Gemm(p.m, p.n, p.k, MatrixView<T>{a_data + offsets[0] * a_size, a_columns, form.transpose_a},
         MatrixView<T>{b_data + offsets[1] * b_size, b_columns, form.transpose_b}, add,
         c_data + offsets[2] * c_size, p.n);
  };
  if (p.Sums()) {
    // One after the other, the parallelism being inside each product.
    std::vector<bool> written(static_cast<size_t>(c.numel() / c_size), form.add);
    for (int64_t i = 0; i < p.count; ++i) {
      const std::array<int64_t, 3> offsets = p.Offsets(i);
      const auto target = static_cast<size_t>(offsets[2]);
      multiply(offsets, written[target]);
      written[target] = true;
    }
    return;
  }
  // Multiply-adds from which one product keeps all threads busy by itself.
  constexpr int64_t kLarge = int64_t{1} << 25;
  const int64_t work = p.m * p.n * p.k;
  if (work >= kLarge) {
    for (int64_t i = 0; i < p.count; ++i) multiply(p.Offsets(i), form.add);
    return;
  }
  ParallelFor(p.count, RowGrain(work / 16), [&](int64_t i, int64_t end) {
    for (; i < end; ++i) multiply(p.Offsets(i), form.add);
  });
}

}  // namespace

void Matmul(MatmulForm form, const Tensor& a, const Tensor& b, Tensor& c) {
  if (c.numel() == 0) return;
  const Shape batch = TOST_CHECK_VALUE(BroadcastShape(BatchOf(a.shape()), BatchOf(b.shape())));
  const Products products(form, a.shape(), b.shape(), c.shape(), batch);
  VisitFloat(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    VisitResult<T>(c.dtype(), [&](auto out) { Run<T, decltype(out)>(products, form, a, b, c); });
  });
}

}  // namespace tost::ops::cpu
