// How many axes of a tensor a loop or a kernel has to tell apart: neighbouring axes along which
// every operand advances in step are one. For loops on any device.
#ifndef TOST_OPS_MERGED_AXES_H_
#define TOST_OPS_MERGED_AXES_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "autograd/shape.h"

namespace tost::ops {

// The merged axes of a result and the operands' strides along them, outermost first. Along the
// innermost axis each operand either advances by one or stands still: operands of equal shape are
// one long run, a scalar stands still in one long run, and a vector along the last axis advances in
// runs of its length.
template <int kOperands>
struct BroadcastPlan {
  int rank = 1;
  std::array<int64_t, Shape::kMaxRank> extents{};
  std::array<std::array<int64_t, Shape::kMaxRank>, kOperands> strides{};

  BroadcastPlan(const Shape& shape, const std::array<Shape, kOperands>& operands) {
    std::array<Shape, kOperands> wide;
    for (int k = 0; k < kOperands; ++k) wide[k] = BroadcastStrides(operands[k], shape);
    // Filled from the innermost axis outwards, into the last places; moved to the front at the end.
    int first = Shape::kMaxRank;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      if (shape[axis] == 1) continue;
      bool merges = first < Shape::kMaxRank;
      for (int k = 0; k < kOperands && merges; ++k) {
        merges = wide[k][axis] == strides[k][first] * extents[first];
      }
      if (merges) {
        extents[first] *= shape[axis];
        continue;
      }
      extents[--first] = shape[axis];
      for (int k = 0; k < kOperands; ++k) strides[k][first] = wide[k][axis];
    }
    if (first == Shape::kMaxRank) extents[--first] = 1;
    rank = Shape::kMaxRank - first;
    std::rotate(extents.begin(), extents.begin() + first, extents.end());
    for (auto& stride : strides) std::rotate(stride.begin(), stride.begin() + first, stride.end());
  }

  int64_t inner() const { return extents[rank - 1]; }
  bool Repeats(int operand) const { return strides[operand][rank - 1] == 0; }
};

// The position of one run: how far each operand's first element lies from its data.
template <int kOperands>
class RunCursor {
 public:
  RunCursor(const BroadcastPlan<kOperands>& plan, int64_t run) : plan_(plan) {
    for (int axis = plan.rank - 2; axis >= 0; --axis) {
      index_[axis] = run % plan.extents[axis];
      run /= plan.extents[axis];
      for (int k = 0; k < kOperands; ++k) offsets_[k] += index_[axis] * plan.strides[k][axis];
    }
  }

  void Next() {
    for (int axis = plan_.rank - 2; axis >= 0; --axis) {
      const bool carries = ++index_[axis] == plan_.extents[axis];
      const int64_t steps = carries ? 1 - plan_.extents[axis] : 1;
      for (int k = 0; k < kOperands; ++k) offsets_[k] += steps * plan_.strides[k][axis];
      if (!carries) return;
      index_[axis] = 0;
    }
  }

  int64_t offset(int operand) const { return offsets_[operand]; }

 private:
  const BroadcastPlan<kOperands>& plan_;
  std::array<int64_t, Shape::kMaxRank> index_{};
  std::array<int64_t, kOperands> offsets_{};
};

// Neighbouring axes of one kind, as offsets into x.
class AxisGroup {
 public:
  void AddOutermost(int64_t extent, int64_t stride, bool merge) {
    count_ *= extent;
    if (merge) {
      extents_[rank_ - 1] *= extent;
    } else {
      extents_[rank_] = extent;
      strides_[rank_++] = stride;
    }
  }
  int64_t count() const { return count_; }
  int rank() const { return rank_; }
  int64_t extent(int axis) const { return extents_[axis]; }  // innermost first
  int64_t stride(int axis) const { return strides_[axis]; }
  int64_t Offset(int64_t index) const {
    int64_t offset = 0;
    for (int i = 0; i < rank_; ++i) {
      offset += index % extents_[i] * strides_[i];
      index /= extents_[i];
    }
    return offset;
  }

 private:
  int rank_ = 0;
  int64_t count_ = 1;
  std::array<int64_t, Shape::kMaxRank> extents_{}, strides_{};
};

// x as kept and reduced axes around one innermost, contiguous run.
struct ReducePlan {
  AxisGroup kept, reduced;  // without the innermost run
  int64_t inner = 1;
  bool inner_kept = true;

  ReducePlan(const Shape& x, const Shape& out) {
    const Shape strides = BroadcastStrides(out, x);
    int64_t stride = 1;
    bool started = false, in_run = true, last_kept = true;
    for (int axis = x.rank() - 1; axis >= 0; --axis) {
      const int64_t extent = x[axis];
      if (extent == 1) continue;
      const bool is_kept = strides[axis] != 0;
      if (!started) inner_kept = is_kept;
      const bool merge = started && is_kept == last_kept;
      in_run = in_run && (!started || merge);
      if (in_run) {
        inner *= extent;
      } else {
        (is_kept ? kept : reduced).AddOutermost(extent, stride, merge);
      }
      started = true;
      last_kept = is_kept;
      stride *= extent;
    }
  }
  int64_t outputs() const { return kept.count() * (inner_kept ? inner : 1); }
};

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

}  // namespace tost::ops

#endif  // TOST_OPS_MERGED_AXES_H_
