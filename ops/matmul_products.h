// The plain products that a batched matrix product with broadcasting consists of, for any device.
#ifndef TOST_OPS_MATMUL_PRODUCTS_H_
#define TOST_OPS_MATMUL_PRODUCTS_H_

#include <array>
#include <cstdint>

#include "autograd/base/errors.h"
#include "autograd/shape.h"
#include "ops/merged_axes.h"

namespace tost::ops {

// c[m, n] = op(a)[m, k] · op(b)[k, n] for `count` batch indices, op being the transposition of the
// last two axes where asked. Where c repeats along a batch axis, products are summed.
struct MatmulProducts {
  int64_t m, n, k, count;
  BroadcastPlan<3> plan;  // of the batch axes: operands a, b, c, in matrices

  MatmulProducts(bool transpose_a, bool transpose_b, const Shape& a, const Shape& b, const Shape& c)
      : m(c[-2]),
        n(c[-1]),
        k(transpose_a ? a[-2] : a[-1]),
        plan(Batch(a, b), {BatchOf(a), BatchOf(b), BatchOf(c)}) {
    count = Batch(a, b).numel();
    // Matrices that lie one below the other are one taller matrix: as rows of a and c under one
    // common b, or, when the products are summed, as the inner extent of aᵀ and b.
    const int last = plan.rank - 1;
    const int64_t extent = plan.extents[last];
    const bool a_steps = !plan.Repeats(0), b_steps = !plan.Repeats(1), c_steps = !plan.Repeats(2);
    if (a_steps && !b_steps && c_steps && !transpose_a) {
      m *= extent;
    } else if (a_steps && b_steps && !c_steps && transpose_a && !transpose_b) {
      k *= extent;
    } else {
      return;
    }
    // What is left of the innermost axis is one block of `extent` matrices per index.
    count /= extent;
    plan.extents[last] = 1;
  }

  // How far, in matrices, each operand's lies from its first, for one batch index.
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

 private:
  static Shape BatchOf(const Shape& shape) {
    return Shape(shape.extents().first(shape.extents().size() - 2));
  }
  static Shape Batch(const Shape& a, const Shape& b) {
    return TOST_CHECK_VALUE(BroadcastShape(BatchOf(a), BatchOf(b)));
  }
};

}  // namespace tost::ops

#endif  // TOST_OPS_MATMUL_PRODUCTS_H_
