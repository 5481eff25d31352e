#include "ops/cpu/linear.h"

#include "autograd/base/parallel.h"
#include "ops/cpu/column_sums.h"
#include "ops/cpu/gemm.h"
#include "ops/cpu/simd_math.h"
#include "ops/linear.h"

namespace tost::ops::cpu {
namespace {

int64_t Columns(const Tensor& x) { return x.shape()[-1]; }

template <class T, class Out>
void RunGemm(const GemmOptions& options, const Tensor& a, const Tensor& b, Tensor& c) {
  const int64_t k = options.transpose_a ? a.shape().Rows() : Columns(a);
  Gemm(c.shape().Rows(), Columns(c), k, MatrixView<T>{a.data<T>(), Columns(a), options.transpose_a},
       MatrixView<T>{b.data<T>(), Columns(b), options.transpose_b}, options.add,
       c.mutable_data<Out>(), Columns(c));
}

// Calls run(first, last) with ranges of whole rows.
template <class Run>
void ForRows(const Tensor& x, Run&& run) {
  ParallelFor(x.shape().Rows(), RowGrain(Columns(x)), run);
}

// y[r, c] += bias[c]
void AddBias(const Tensor& bias, Tensor& y) {
  VisitFloat(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    const int64_t columns = Columns(y);
    const A* __restrict b = bias.data<A>();
    T* data = y.mutable_data<T>();
    ForRows(y, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        T* __restrict row = data + r * columns;
        for (int64_t c = 0; c < columns; ++c)
          row[c] = static_cast<T>(static_cast<A>(row[c]) + b[c]);
      }
    });
  });
}

}  // namespace

void GemmOfTensors(const GemmOptions& options, const Tensor& a, const Tensor& b, Tensor& c) {
  TOST_CHECK(a.dtype() == b.dtype()) << "gemm: operands of " << a.dtype() << " and " << b.dtype();
  switch (a.dtype()) {
    case DType::kFloat64:
      return RunGemm<double, double>(options, a, b, c);
    case DType::kFloat32:
      return RunGemm<float, float>(options, a, b, c);
    default:
      break;
  }
  if (c.dtype() == DType::kFloat32) return RunGemm<bfloat16, float>(options, a, b, c);
  RunGemm<bfloat16, bfloat16>(options, a, b, c);
}

void Linear(const Tensor& x, const Tensor& w, const Tensor& b, Tensor& y) {
  GemmOfTensors({.transpose_b = true}, x, w, y);
  if (b.defined()) AddBias(b, y);
}

void BiasGelu(const Tensor& bias, Tensor& u, Tensor& y) {
  VisitFloat(u.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    const int64_t columns = Columns(u);
    const A* __restrict b = bias.defined() ? bias.data<A>() : nullptr;
    T* in = u.mutable_data<T>();
    T* out = y.mutable_data<T>();
    ForRows(u, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        T* __restrict from = in + r * columns;
        T* __restrict to = out + r * columns;
        if (b != nullptr) {
          for (int64_t c = 0; c < columns; ++c) {
            from[c] = static_cast<T>(static_cast<A>(from[c]) + b[c]);
          }
        }
        for (int64_t c = 0; c < columns; ++c) {
          to[c] = static_cast<T>(GeluErf(static_cast<A>(from[c])));
        }
      }
    });
  });
}

void LinearGelu(const Tensor& x, const Tensor& w, const Tensor& b, Tensor& u, Tensor& y) {
  GemmOfTensors({.transpose_b = true}, x, w, u);
  BiasGelu(b, u, y);
}

void LinearGeluBackward(const Tensor& u, const Tensor& dy, Tensor& du) {
  VisitFloat(u.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    const T* in = u.data<T>();
    const T* gradient = dy.data<T>();
    T* out = du.mutable_data<T>();
    ParallelFor(u.numel(), RowGrain(1), [&](int64_t begin, int64_t end) {
      const T* __restrict x = in;
      const T* __restrict g = gradient;
      T* __restrict to = out;
      for (int64_t i = begin; i < end; ++i) {
        to[i] = static_cast<T>(static_cast<A>(g[i]) * GeluErfGrad(static_cast<A>(x[i])));
      }
    });
  });
}

void SumRows(const Tensor& x, bool add, Tensor& out) {
  VisitFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    const int64_t rows = x.shape().Rows(), columns = Columns(x);
    const int64_t length = RowsPerRange(rows, columns), ranges = RangeCount(rows, columns);
    Tensor scratch = Tensor::Zeros({ranges, columns}, kDTypeOf<A>);
    A* partial = scratch.mutable_data<A>();
    const T* data = x.data<T>();
    ParallelFor(rows, length, [&](int64_t begin, int64_t end) {
      A* __restrict sums = partial + begin / length * columns;
      for (int64_t r = begin; r < end; ++r) {
        const T* __restrict row = data + r * columns;
        for (int64_t c = 0; c < columns; ++c) sums[c] += static_cast<A>(row[c]);
      }
    });
    AddRanges(partial, ranges, columns, add, out);
  });
}

}  // namespace tost::ops::cpu
