#include "ops/cpu/softmax.h"

#include <algorithm>

#include "autograd/base/parallel.h"
#include "ops/cpu/dispatch.h"
#include "ops/cpu/fold.h"
#include "ops/cpu/simd_math.h"

namespace tost::ops::cpu {
namespace {

// A tensor seen from the axis of the softmax: [outer, extent, inner]. With inner = 1 each softmax
// is a contiguous row; otherwise a task takes a strip of up to kColumns neighbouring softmaxes at
// once.
struct AxisView {
  int64_t outer, extent, inner;
  AxisView(const Shape& shape, int axis)
      : outer(shape.Before(axis)), extent(shape[axis]), inner(shape.After(axis)) {}

  // body(first element of a row)
  template <class Body>
  void ForEachRow(const Body& body) const {
    ParallelFor(outer, RowGrain(extent), [&](int64_t row, int64_t end) {
      for (; row < end; ++row) body(row * extent);
    });
  }
  // body(first element of a strip, its columns)
  template <class Body>
  void ForEachStrip(const Body& body) const {
    const int64_t width = std::min(kColumns, inner);
    const int64_t strips = (inner + kColumns - 1) / kColumns;
    ParallelFor(outer * strips, RowGrain(extent * width), [&](int64_t i, int64_t end) {
      for (; i < end; ++i) {
        const int64_t column = i % strips * width;
        body(i / strips * extent * inner + column, std::min(width, inner - column));
      }
    });
  }
  static constexpr int64_t kColumns = 512;
};

template <class A>
A Add(A a, A b) {
  return a + b;
}
// NaN if one of the two is.
template <class A>
A Larger(A a, A b) {
  return a > b || a != a ? a : b;
}

// What the two forms make of x, of the maximum and of Finish(Σ e^(x − maximum)).
struct SoftmaxForm {
  template <class A>
  static A Finish(A sum) {
    return A(1) / sum;
  }
  template <class A>
  static A Value(A x, A maximum, A finished) {
    return Exp(x - maximum) * finished;
  }
};
struct LogSoftmaxForm {
  template <class A>
  static A Finish(A sum) {
    return Log(sum);
  }
  template <class A>
  static A Value(A x, A maximum, A finished) {
    return x - maximum - finished;
  }
};

template <class Form, class T>
void ForwardRows(const AxisView& view, const T* x, T* y) {
  using A = Accumulate<T>;
  view.ForEachRow([&](int64_t first) {
    const T* const from = x + first;
    T* const to = y + first;
    const A maximum = Fold<A>(
        view.extent, -static_cast<A>(__builtin_inff()),
        [=](int64_t i) { return static_cast<A>(from[i]); }, Larger<A>);
    const A sum = Fold<A>(
        view.extent, A(0), [=](int64_t i) { return Exp(static_cast<A>(from[i]) - maximum); },
        Add<A>);
    const A finished = Form::Finish(sum);
    for (int64_t i = 0; i < view.extent; ++i) {
      to[i] = static_cast<T>(Form::Value(static_cast<A>(from[i]), maximum, finished));
    }
  });
}

template <class Form, class T>
void ForwardColumns(const AxisView& view, const T* x, T* y) {
  using A = Accumulate<T>;
  view.ForEachStrip([&](int64_t first, int64_t columns) {
    A maximum[AxisView::kColumns], sum[AxisView::kColumns];
    std::fill_n(maximum, columns, -static_cast<A>(__builtin_inff()));
    std::fill_n(sum, columns, A(0));
    for (int64_t i = 0; i < view.extent; ++i) {
      const T* const from = x + first + i * view.inner;
      for (int64_t c = 0; c < columns; ++c) {
        maximum[c] = Larger(maximum[c], static_cast<A>(from[c]));
      }
    }
    for (int64_t i = 0; i < view.extent; ++i) {
      const T* const from = x + first + i * view.inner;
      for (int64_t c = 0; c < columns; ++c) sum[c] += Exp(static_cast<A>(from[c]) - maximum[c]);
    }
    for (int64_t c = 0; c < columns; ++c) sum[c] = Form::Finish(sum[c]);
    for (int64_t i = 0; i < view.extent; ++i) {
      const T* const from = x + first + i * view.inner;
      T* const to = y + first + i * view.inner;
      for (int64_t c = 0; c < columns; ++c) {
        to[c] = static_cast<T>(Form::Value(static_cast<A>(from[c]), maximum[c], sum[c]));
      }
    }
  });
}

template <class Form>
void Forward(const Tensor& x, int axis, Tensor& y) {
  const AxisView view(x.shape(), axis);
  VisitFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if (view.inner == 1) {
      ForwardRows<Form>(view, x.data<T>(), y.mutable_data<T>());
    } else {
      ForwardColumns<Form>(view, x.data<T>(), y.mutable_data<T>());
    }
  });
}

// The gradient from y, dy and the sum of Term over the axis.
struct SoftmaxGradient {
  template <class A>
  static A Term(A y, A dy) {
    return y * dy;
  }
  template <class A>
  static A Value(A y, A dy, A sum) {
    return y * (dy - sum);
  }
};
struct LogSoftmaxGradient {
  template <class A>
  static A Term(A, A dy) {
    return dy;
  }
  template <class A>
  static A Value(A y, A dy, A sum) {
    return dy - Exp(y) * sum;
  }
};

template <class Form, class T, class Out>
void BackwardRows(const AxisView& view, const T* y, const T* dy, bool add, Out* dx) {
  using A = Accumulate<T>;
  view.ForEachRow([&](int64_t first) {
    const T *const value = y + first, *const gradient = dy + first;
    Out* const to = dx + first;
    const A sum = Fold<A>(
        view.extent, A(0),
        [=](int64_t i) {
          return Form::Term(static_cast<A>(value[i]), static_cast<A>(gradient[i]));
        },
        Add<A>);
    for (int64_t i = 0; i < view.extent; ++i) {
      const A before = add ? static_cast<A>(to[i]) : A(0);
      to[i] = static_cast<Out>(
          before + Form::Value(static_cast<A>(value[i]), static_cast<A>(gradient[i]), sum));
    }
  });
}

template <class Form, class T, class Out>
void BackwardColumns(const AxisView& view, const T* y, const T* dy, bool add, Out* dx) {
  using A = Accumulate<T>;
  view.ForEachStrip([&](int64_t first, int64_t columns) {
    A sum[AxisView::kColumns];
    std::fill_n(sum, columns, A(0));
    for (int64_t i = 0; i < view.extent; ++i) {
      const int64_t row = first + i * view.inner;
      for (int64_t c = 0; c < columns; ++c) {
        sum[c] += Form::Term(static_cast<A>(y[row + c]), static_cast<A>(dy[row + c]));
      }
    }
    for (int64_t i = 0; i < view.extent; ++i) {
      const int64_t row = first + i * view.inner;
      for (int64_t c = 0; c < columns; ++c) {
        const A before = add ? static_cast<A>(dx[row + c]) : A(0);
        dx[row + c] = static_cast<Out>(
            before + Form::Value(static_cast<A>(y[row + c]), static_cast<A>(dy[row + c]), sum[c]));
      }
    }
  });
}

template <class Form>
void Backward(const Tensor& y, const Tensor& dy, int axis, Tensor& dx, bool add) {
  const AxisView view(y.shape(), axis);
  VisitFloat(dy.dtype(), [&](auto zero) {
    using T = decltype(zero);
    VisitResult<T>(dx.dtype(), [&](auto result) {
      auto* const out = dx.mutable_data<decltype(result)>();
      if (view.inner == 1) {
        BackwardRows<Form>(view, y.data<T>(), dy.data<T>(), add, out);
      } else {
        BackwardColumns<Form>(view, y.data<T>(), dy.data<T>(), add, out);
      }
    });
  });
}

}  // namespace

void Softmax(const Tensor& x, int axis, Tensor& y) { Forward<SoftmaxForm>(x, axis, y); }

void LogSoftmax(const Tensor& x, int axis, Tensor& y) { Forward<LogSoftmaxForm>(x, axis, y); }

void SoftmaxBackward(const Tensor& y, const Tensor& dy, int axis, Tensor& dx, bool add) {
  Backward<SoftmaxGradient>(y, dy, axis, dx, add);
}

void LogSoftmaxBackward(const Tensor& y, const Tensor& dy, int axis, Tensor& dx, bool add) {
  Backward<LogSoftmaxGradient>(y, dy, axis, dx, add);
}

}  // namespace tost::ops::cpu
