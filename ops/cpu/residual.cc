#include "ops/cpu/residual.h"

#include "autograd/base/parallel.h"
#include "ops/cpu/column_sums.h"
#include "ops/residual.h"

namespace tost::ops::cpu {
namespace {

// One range of rows: dy = γ ⊙ dz and, where `sums` is given, sums += dz ⊙ y.
template <class T, class A = Accumulate<T>>
struct BackwardRange {
  int64_t columns;
  const A* gamma;  // null: ones
  const T* y;      // null without sums
  const T* dz;
  bool add;
  T* dy;  // null: unwanted

  void Run(int64_t begin, int64_t end, A* __restrict sums) const {
    for (int64_t row = begin; row < end; ++row) {
      const T* __restrict g = dz + row * columns;
      if (sums != nullptr) {
        const T* __restrict value = y + row * columns;
        for (int64_t c = 0; c < columns; ++c) {
          sums[c] += static_cast<A>(g[c]) * static_cast<A>(value[c]);
        }
      }
      if (dy != nullptr) Scale(g, dy + row * columns);
    }
  }

  void Scale(const T* __restrict g, T* __restrict to) const {
    const A* __restrict factor = gamma;
    if (add) {
      for (int64_t c = 0; c < columns; ++c) {
        to[c] = static_cast<T>(static_cast<A>(to[c]) + factor[c] * static_cast<A>(g[c]));
      }
    } else {
      for (int64_t c = 0; c < columns; ++c) {
        to[c] = static_cast<T>(factor[c] * static_cast<A>(g[c]));
      }
    }
  }
};

}  // namespace

void ScaledResidual(const Tensor& x, const Tensor& gamma, const Tensor& y, Tensor& z) {
  VisitFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    const int64_t rows = x.shape().Rows(), columns = x.shape()[-1];
    const T* stream = x.data<T>();
    const T* branch = y.data<T>();
    const A* __restrict factor = gamma.defined() ? gamma.data<A>() : nullptr;
    T* out = z.mutable_data<T>();
    ParallelFor(rows, RowGrain(columns), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* __restrict a = stream + row * columns;
        const T* __restrict b = branch + row * columns;
        T* __restrict to = out + row * columns;
        if (factor != nullptr) {
          for (int64_t c = 0; c < columns; ++c) {
            to[c] = static_cast<T>(static_cast<A>(a[c]) + factor[c] * static_cast<A>(b[c]));
          }
        } else {
          for (int64_t c = 0; c < columns; ++c) {
            to[c] = static_cast<T>(static_cast<A>(a[c]) + static_cast<A>(b[c]));
          }
        }
      }
    });
  });
}

void ScaledResidualBackward(const Tensor& gamma, const Tensor& y, const Tensor& dz,
                            ScaledResidualGradients& out) {
  VisitFloat(dz.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    const int64_t rows = dz.shape().Rows(), columns = dz.shape()[-1];
    const int64_t length = RowsPerRange(rows, columns);
    A* sums = nullptr;
    if (out.want_sums) {
      out.gamma_sums =
          Tensor::Zeros({RangeCount(rows, columns), columns}, kDTypeOf<A>, dz.device());
      sums = out.gamma_sums.mutable_data<A>();
    }
    const BackwardRange<T> range{
        columns,      gamma.data<A>(), out.want_sums ? y.data<T>() : nullptr,
        dz.data<T>(), out.add,         out.dy.defined() ? out.dy.mutable_data<T>() : nullptr};
    ParallelFor(rows, length, [&](int64_t begin, int64_t end) {
      range.Run(begin, end, sums == nullptr ? nullptr : sums + begin / length * columns);
    });
  });
}

void CopyOrAdd(const Tensor& x, bool add, Tensor& out) {
  VisitFloat(x.dtype(), [&](auto x_zero) {
    using T = decltype(x_zero);
    VisitFloat(out.dtype(), [&](auto out_zero) {
      using Out = decltype(out_zero);
      using A = Accumulate<Out>;
      const T* __restrict from = x.data<T>();
      Out* __restrict to = out.mutable_data<Out>();
      ParallelFor(x.numel(), RowGrain(1), [&](int64_t begin, int64_t end) {
        if (add) {
          for (int64_t i = begin; i < end; ++i) {
            to[i] = static_cast<Out>(static_cast<A>(to[i]) + static_cast<A>(from[i]));
          }
        } else {
          for (int64_t i = begin; i < end; ++i) to[i] = static_cast<Out>(static_cast<A>(from[i]));
        }
      });
    });
  });
}

}  // namespace tost::ops::cpu
