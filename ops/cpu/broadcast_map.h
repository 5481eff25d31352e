// y[i] = fn(a[i], b[i], …) over operands that broadcast to the shape of y: the loop under every
// elementwise kernel of the CPU.
//
// Axes that all operands walk in step are merged. What remains is an odometer over the outer axes
// and runs along the innermost, where each operand either advances by one or stands still. Operands
// of equal shape are thus one long run, a scalar stands still in one long run, and a vector along
// the last axis advances in runs of its length. An operand that stands still is read from a short
// block filled with its value, so that there is one inner loop, and it vectorises.
#ifndef TOST_OPS_CPU_BROADCAST_MAP_H_
#define TOST_OPS_CPU_BROADCAST_MAP_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <tuple>

#include "autograd/base/dtype.h"
#include "autograd/base/parallel.h"
#include "autograd/tensor.h"

namespace tost::ops::cpu {

template <class T>
struct Operand {
  const T* data;
  Shape shape;
};

template <class T>
Operand<T> Read(const Tensor& x) {
  return {x.data<T>(), x.shape()};
}

// The merged axes of a result and the operands' strides along them, outermost first.
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

// out[i] = fn(in[i]…), or += when `add`.
template <class Fn, class Out, class... In>
void MapRun(const Fn& fn, bool add, int64_t count, Out* out, const In*... in) {
  if (add) {
    for (int64_t i = 0; i < count; ++i) {
      out[i] =
          static_cast<Out>(static_cast<Accumulate<Out>>(out[i]) +
                           static_cast<Accumulate<Out>>(fn(static_cast<Accumulate<In>>(in[i])...)));
    }
  } else {
    for (int64_t i = 0; i < count; ++i) {
      out[i] = static_cast<Out>(fn(static_cast<Accumulate<In>>(in[i])...));
    }
  }
}

// An operand along a run: its elements, or a block of copies of the one that repeats.
template <class T, int kBlock>
class RunReader {
 public:
  void Start(const T* data, bool repeats, int64_t count) {
    data_ = data;
    repeats_ = repeats;
    if (repeats) std::fill_n(block_, std::min<int64_t>(kBlock, count), *data);
  }
  const T* At(int64_t i) const { return repeats_ ? block_ : data_ + i; }

 private:
  const T* data_;
  bool repeats_;
  T block_[kBlock];
};

// Writes all of `out`, a contiguous tensor of shape `shape`.
template <class Fn, class Out, class... In>
void BroadcastMap(const Shape& shape, const Fn& fn, bool add, Out* out, const Operand<In>&... in) {
  constexpr int kOperands = sizeof...(In);
  constexpr int64_t kBlock = 512;
  const BroadcastPlan<kOperands> plan(shape, {in.shape...});
  const int64_t inner = plan.inner();
  ParallelFor(shape.numel(), RowGrain(1), [&](int64_t begin, int64_t end) {
    RunCursor<kOperands> cursor(plan, begin / inner);
    std::tuple<RunReader<In, kBlock>...> readers;
    while (begin < end) {
      const int64_t column = begin % inner;
      const int64_t count = std::min(inner - column, end - begin);
      bool repeats = false;
      [&]<size_t... k>(std::index_sequence<k...>) {
        auto start = [&](auto& reader, const auto* data, int operand) {
          const bool still = plan.Repeats(operand);
          repeats |= still;
          reader.Start(data + cursor.offset(operand) + (still ? 0 : column), still, count);
        };
        (start(std::get<k>(readers), in.data, static_cast<int>(k)), ...);
        const int64_t step = repeats ? kBlock : count;
        for (int64_t i = 0; i < count; i += step) {
          MapRun(fn, add, std::min(step, count - i), out + begin + i,
                 std::get<k>(readers).At(i)...);
        }
      }
      (std::index_sequence_for<In...>());
      begin += count;
      cursor.Next();
    }
  });
}

}  // namespace tost::ops::cpu

#endif  // TOST_OPS_CPU_BROADCAST_MAP_H_
