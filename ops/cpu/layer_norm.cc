#include "ops/cpu/layer_norm.h"

#include <algorithm>
#include <cmath>

#include "autograd/base/parallel.h"
#include "ops/cpu/column_sums.h"
#include "ops/layer_norm.h"

namespace tost::ops::cpu {
namespace {

template <class A>
struct Moments {
  A mean;
  A variance;
};

// Mean and variance of a row. The second pass sums x − m for the rounded first mean m as well: with
// that sum the mean of a row of equal values is exact, and so its variance is 0.
template <class T, class A = Accumulate<T>>
Moments<A> MomentsOf(const T* __restrict x, int64_t columns) {
  A sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t c = 0; c < columns; ++c) sum += static_cast<A>(x[c]);
  const A first = sum / static_cast<A>(columns);
  A rest = 0, squares = 0;
#pragma omp simd reduction(+ : rest, squares)
  for (int64_t c = 0; c < columns; ++c) {
    const A d = static_cast<A>(x[c]) - first;
    rest += d;
    squares += d * d;
  }
  rest /= static_cast<A>(columns);
  return {first + rest, std::max(A(0), squares / static_cast<A>(columns) - rest * rest)};
}

// What the rows of one call share.
template <class T>
struct BackwardArguments {
  int64_t columns;
  const T* x;
  const T* dy;
  const Accumulate<T>* weight;
  const Accumulate<T>* mean;
  const Accumulate<T>* rstd;
};

// dx of one row.
template <class T, class Out, class A = Accumulate<T>>
void RowGradient(const BackwardArguments<T>& in, int64_t row, bool add, Out* __restrict dx) {
  const T* __restrict x = in.x + row * in.columns;
  const T* __restrict dy = in.dy + row * in.columns;
  const A* __restrict weight = in.weight;
  const A mean = in.mean[row], rstd = in.rstd[row];
  A sum = 0, projection = 0;  // Σ g and Σ g x̂
#pragma omp simd reduction(+ : sum, projection)
  for (int64_t c = 0; c < in.columns; ++c) {
    const A g = static_cast<A>(dy[c]) * weight[c];
    sum += g;
    projection += g * ((static_cast<A>(x[c]) - mean) * rstd);
  }
  sum /= static_cast<A>(in.columns);
  projection /= static_cast<A>(in.columns);
  auto value = [=](int64_t c) {
    const A normal = (static_cast<A>(x[c]) - mean) * rstd;
    return rstd * (static_cast<A>(dy[c]) * weight[c] - sum - normal * projection);
  };
  if (add) {
    for (int64_t c = 0; c < in.columns; ++c) {
      dx[c] = static_cast<Out>(static_cast<A>(dx[c]) + value(c));
    }
  } else {
    for (int64_t c = 0; c < in.columns; ++c) dx[c] = static_cast<Out>(value(c));
  }
}

// Adds one row's part to the sums for dweight and dbias.
template <class T, class A = Accumulate<T>>
void AddRow(const BackwardArguments<T>& in, int64_t row, A* __restrict weight_sums,
            A* __restrict bias_sums) {
  const T* __restrict x = in.x + row * in.columns;
  const T* __restrict dy = in.dy + row * in.columns;
  const A mean = in.mean[row], rstd = in.rstd[row];
  for (int64_t c = 0; c < in.columns; ++c) {
    const A g = static_cast<A>(dy[c]);
    weight_sums[c] += g * ((static_cast<A>(x[c]) - mean) * rstd);
    bias_sums[c] += g;
  }
}

template <class T>
void Backward(const BackwardArguments<T>& in, int64_t rows, Device device,
              LayerNormGradients& out) {
  using A = Accumulate<T>;
  const int64_t length = RowsPerRange(rows, in.columns);
  T* dx = out.dx.defined() ? out.dx.mutable_data<T>() : nullptr;
  A* weight_sums = nullptr;
  A* bias_sums = nullptr;
  if (out.want_sums) {
    const Shape shape{RangeCount(rows, in.columns), in.columns};
    out.weight_sums = Tensor::Zeros(shape, kDTypeOf<A>, device);
    out.bias_sums = Tensor::Zeros(shape, kDTypeOf<A>, device);
    weight_sums = out.weight_sums.mutable_data<A>();
    bias_sums = out.bias_sums.mutable_data<A>();
  }
  ParallelFor(rows, length, [&](int64_t begin, int64_t end) {
    const int64_t range = begin / length * in.columns;
    for (int64_t row = begin; row < end; ++row) {
      if (out.want_sums) AddRow(in, row, weight_sums + range, bias_sums + range);
      if (dx != nullptr) RowGradient(in, row, out.add, dx + row * in.columns);
    }
  });
}

}  // namespace

void LayerNorm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon, Tensor& y,
               Tensor& mean, Tensor& rstd) {
  VisitFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    const int64_t rows = x.shape().Rows(), columns = x.shape()[-1];
    const T* in = x.data<T>();
    const A* __restrict w = weight.data<A>();
    const A* __restrict b = bias.defined() ? bias.data<A>() : nullptr;
    T* out = y.mutable_data<T>();
    A* means = mean.mutable_data<A>();
    A* rstds = rstd.mutable_data<A>();
    ParallelFor(rows, RowGrain(columns), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* __restrict from = in + row * columns;
        T* __restrict to = out + row * columns;
        const Moments<A> moments = MomentsOf(from, columns);
        const A m = moments.mean, r = A(1) / std::sqrt(moments.variance + static_cast<A>(epsilon));
        means[row] = m;
        rstds[row] = r;
        if (b != nullptr) {
          for (int64_t c = 0; c < columns; ++c) {
            to[c] = static_cast<T>((static_cast<A>(from[c]) - m) * r * w[c] + b[c]);
          }
        } else {
          for (int64_t c = 0; c < columns; ++c) {
            to[c] = static_cast<T>((static_cast<A>(from[c]) - m) * r * w[c]);
          }
        }
      }
    });
  });
}

void LayerNormBackward(const Tensor& x, const Tensor& weight, const Tensor& mean,
                       const Tensor& rstd, const Tensor& dy, LayerNormGradients& out) {
  VisitFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    const BackwardArguments<T> in{x.shape()[-1],    x.data<T>(),    dy.data<T>(),
                                  weight.data<A>(), mean.data<A>(), rstd.data<A>()};
    Backward(in, x.shape().Rows(), x.device(), out);
  });
}

}  // namespace tost::ops::cpu
