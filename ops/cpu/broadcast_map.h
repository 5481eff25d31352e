// y[i] = fn(a[i], b[i], …) over operands that broadcast to the shape of y: the loop under every
// elementwise kernel of the CPU.
//
// The axes are merged (ops/merged_axes.h); each run along the innermost one is a loop. An operand
// that stands still in it is read from a short block filled with its value, so that there is one
// inner loop, and it vectorises.
#ifndef TOST_OPS_CPU_BROADCAST_MAP_H_
#define TOST_OPS_CPU_BROADCAST_MAP_H_

#include <algorithm>
#include <cstdint>
#include <tuple>

#include "autograd/base/dtype.h"
#include "autograd/base/parallel.h"
#include "autograd/tensor.h"
#include "ops/merged_axes.h"

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
