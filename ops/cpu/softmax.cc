#include "ops/cpu/softmax.h"

#include <algorithm>

#include "autograd/base/parallel.h"
#include "ops/cpu/dispatch.h"
#include "ops/cpu/simd_math.h"

namespace tost::ops::cpu {
namespace {

// Softmaxes computed side by side. Along an inner axis they are neighbouring columns of a strip.
// Along the last axis there is one row, and the lanes hold partial results of it.
constexpr int kLanes = 32;

// A strip: `count` elements of each softmax, `stride` apart, for `columns` softmaxes whose elements
// lie next to one another.
struct Strip {
  int64_t offset, count, stride, columns;
};

// Calls body(strip) for strips that cover [outer, extent, inner] = the shape around `axis`.
template <class Body>
void ForEachStrip(const Shape& shape, int axis, const Body& body) {
  const int64_t count = shape[axis], inner = shape.After(axis);
  const int64_t width = std::min<int64_t>(kLanes, std::max<int64_t>(1, inner));
  const int64_t strips = (inner + width - 1) / width;
  ParallelFor(shape.Before(axis) * strips, RowGrain(count * width), [&](int64_t i, int64_t end) {
    for (; i < end; ++i) {
      const int64_t column = i % strips * width;
      body(Strip{i / strips * count * inner + column, count, inner,
                 std::min(width, inner - column)});
    }
  });
}

// Folds map(i, column) over the elements i of each softmax of the strip, into result[column].
template <class A, class Map, class Combine>
void Fold(const Strip& strip, A identity, const Map& map, const Combine& combine, A* result) {
  std::fill_n(result, kLanes, identity);
  if (strip.stride > 1) {
    for (int64_t i = 0; i < strip.count; ++i) {
      for (int64_t c = 0; c < strip.columns; ++c) {
        result[c] = combine(result[c], map(i * strip.stride + c, c));
      }
    }
    return;
  }
  int64_t i = 0;
  for (; i + kLanes <= strip.count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      result[lane] = combine(result[lane], map(i + lane, 0));
    }
  }
  for (int lane = 0; i < strip.count; ++i, ++lane) {
    result[lane] = combine(result[lane], map(i, 0));
  }
  for (int lane = 1; lane < kLanes; ++lane) result[0] = combine(result[0], result[lane]);
}

// Calls body(offset, column) for every element of the strip.
template <class Body>
void ForEachElement(const Strip& strip, const Body& body) {
  if (strip.stride > 1) {
    for (int64_t i = 0; i < strip.count; ++i) {
      for (int64_t c = 0; c < strip.columns; ++c) body(i * strip.stride + c, c);
    }
  } else {
    for (int64_t i = 0; i < strip.count; ++i) body(i, 0);
  }
}

template <class A>
A Add(A a, A b) {
  return a + b;
}

template <class T, class A = Accumulate<T>>
void MaximumAndSum(const Strip& strip, const T* x, A* maximum, A* sum) {
  Fold<A>(
      strip, -static_cast<A>(__builtin_inff()),
      [&](int64_t i, int64_t) { return static_cast<A>(x[i]); },
      [](A a, A b) { return a > b || a != a ? a : b; }, maximum);
  Fold<A>(
      strip, A(0), [&](int64_t i, int64_t c) { return Exp(static_cast<A>(x[i]) - maximum[c]); },
      &Add<A>, sum);
}

// out (+)= value
template <class Out, class A>
void Store(Out& out, A value, bool add) {
  using Sum = Accumulate<Out>;
  out = static_cast<Out>(static_cast<Sum>(value) + (add ? static_cast<Sum>(out) : Sum(0)));
}

template <class Run>
void DispatchBackward(DType dtype, DType result, const Run& run) {
  VisitFloat(dtype, [&](auto zero) {
    VisitResult<decltype(zero)>(result, [&](auto out) { run(zero, out); });
  });
}

}  // namespace

void Softmax(const Tensor& x, int axis, Tensor& y) {
  VisitFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    const T* const x_data = x.data<T>();
    T* const y_data = y.mutable_data<T>();
    ForEachStrip(x.shape(), axis, [&](const Strip& strip) {
      A maximum[kLanes], scale[kLanes];
      const T* const from = x_data + strip.offset;
      T* const to = y_data + strip.offset;
      MaximumAndSum(strip, from, maximum, scale);
      for (A& s : scale) s = A(1) / s;
      ForEachElement(strip, [&](int64_t i, int64_t c) {
        to[i] = static_cast<T>(Exp(static_cast<A>(from[i]) - maximum[c]) * scale[c]);
      });
    });
  });
}

void LogSoftmax(const Tensor& x, int axis, Tensor& y) {
  VisitFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    const T* const x_data = x.data<T>();
    T* const y_data = y.mutable_data<T>();
    ForEachStrip(x.shape(), axis, [&](const Strip& strip) {
      A maximum[kLanes], log_sum[kLanes];
      const T* const from = x_data + strip.offset;
      T* const to = y_data + strip.offset;
      MaximumAndSum(strip, from, maximum, log_sum);
      for (A& s : log_sum) s = Log(s);
      ForEachElement(strip, [&](int64_t i, int64_t c) {
        to[i] = static_cast<T>(static_cast<A>(from[i]) - maximum[c] - log_sum[c]);
      });
    });
  });
}

void SoftmaxBackward(const Tensor& y, const Tensor& dy, int axis, Tensor& dx, bool add) {
  DispatchBackward(dy.dtype(), dx.dtype(), [&](auto zero, auto out) {
    using T = decltype(zero);
    using Out = decltype(out);
    using A = Accumulate<T>;
    const T *const y_data = y.data<T>(), *const dy_data = dy.data<T>();
    Out* const dx_data = dx.mutable_data<Out>();
    ForEachStrip(y.shape(), axis, [&](const Strip& strip) {
      const T *const p = y_data + strip.offset, *const g = dy_data + strip.offset;
      Out* const to = dx_data + strip.offset;
      A dot[kLanes];
      Fold<A>(
          strip, A(0),
          [&](int64_t i, int64_t) { return static_cast<A>(p[i]) * static_cast<A>(g[i]); }, &Add<A>,
          dot);
      ForEachElement(strip, [&](int64_t i, int64_t c) {
        Store(to[i], static_cast<A>(p[i]) * (static_cast<A>(g[i]) - dot[c]), add);
      });
    });
  });
}

void LogSoftmaxBackward(const Tensor& y, const Tensor& dy, int axis, Tensor& dx, bool add) {
  DispatchBackward(dy.dtype(), dx.dtype(), [&](auto zero, auto out) {
    using T = decltype(zero);
    using Out = decltype(out);
    using A = Accumulate<T>;
    const T *const y_data = y.data<T>(), *const dy_data = dy.data<T>();
    Out* const dx_data = dx.mutable_data<Out>();
    ForEachStrip(y.shape(), axis, [&](const Strip& strip) {
      const T *const l = y_data + strip.offset, *const g = dy_data + strip.offset;
      Out* const to = dx_data + strip.offset;
      A sum[kLanes];
      Fold<A>(
          strip, A(0), [&](int64_t i, int64_t) { return static_cast<A>(g[i]); }, &Add<A>, sum);
      ForEachElement(strip, [&](int64_t i, int64_t c) {
        Store(to[i], static_cast<A>(g[i]) - Exp(static_cast<A>(l[i])) * sum[c], add);
      });
    });
  });
}

}  // namespace tost::ops::cpu
