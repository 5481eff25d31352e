#include "ops/cpu/batch_norm.h"

#include <cmath>

#include "autograd/base/parallel.h"
#include "ops/cpu/column_sums.h"

namespace tost::ops::cpu {
namespace {

// out[k] = Σ_rows of what visit(row, sums) adds to sums [columns], in an order that the extents
// decide.
template <class A, class Visit>
void SumOverRows(int64_t rows, int64_t columns, Tensor& out, Visit&& visit) {
  const int64_t length = RowsPerRange(rows, columns), ranges = RangeCount(rows, columns);
  Tensor scratch = Tensor::Zeros({ranges, columns}, kDTypeOf<A>);
  A* partial = scratch.mutable_data<A>();
  ParallelFor(rows, length, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) visit(r, partial + begin / length * columns);
  });
  AddRanges(partial, ranges, columns, /*add=*/false, out);
}

}  // namespace

void SquaredDeviations(const Tensor& x, const Tensor& mean, Tensor& sums) {
  VisitFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    const int64_t channels = x.shape()[-1];
    const T* data = x.data<T>();
    const A* __restrict mu = mean.data<A>();
    SumOverRows<A>(x.shape().Rows(), channels, sums, [&](int64_t r, A* __restrict out) {
      const T* __restrict row = data + r * channels;
      for (int64_t c = 0; c < channels; ++c) {
        const A deviation = static_cast<A>(row[c]) - mu[c];
        out[c] += deviation * deviation;
      }
    });
  });
}

void NormaliseChannels(const Tensor& x, const Tensor& mean, const Tensor& rstd,
                       const Tensor& weight, const Tensor& bias, Tensor& y) {
  VisitFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    const int64_t channels = x.shape()[-1];
    const T* in = x.data<T>();
    const A *mu = mean.data<A>(), *rho = rstd.data<A>();
    const A *w = weight.data<A>(), *b = bias.data<A>();
    T* out = y.mutable_data<T>();
    ParallelFor(x.shape().Rows(), RowGrain(channels), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T* __restrict from = in + r * channels;
        T* __restrict to = out + r * channels;
        for (int64_t c = 0; c < channels; ++c) {
          to[c] = static_cast<T>((static_cast<A>(from[c]) - mu[c]) * rho[c] * w[c] + b[c]);
        }
      }
    });
  });
}

void BatchNormGradientSums(const Tensor& x, const Tensor& mean, const Tensor& rstd,
                           const Tensor& dy, Tensor& sums) {
  VisitFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    const int64_t channels = x.shape()[-1];
    const T *data = x.data<T>(), *gradient = dy.data<T>();
    const A *mu = mean.data<A>(), *rho = rstd.data<A>();
    Tensor flat = sums.Reshaped({2 * channels});
    SumOverRows<A>(x.shape().Rows(), 2 * channels, flat, [&](int64_t r, A* __restrict out) {
      const T* __restrict row = data + r * channels;
      const T* __restrict g = gradient + r * channels;
      for (int64_t c = 0; c < channels; ++c) {
        const A dy_c = static_cast<A>(g[c]);
        out[c] += dy_c;
        out[channels + c] += dy_c * (static_cast<A>(row[c]) - mu[c]) * rho[c];
      }
    });
  });
}

void BatchNormBackward(const Tensor& x, const Tensor& mean, const Tensor& rstd,
                       const Tensor& weight, const Tensor& means, const Tensor& dy, bool add,
                       Tensor& dx) {
  VisitFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    const int64_t channels = x.shape()[-1];
    const T *in = x.data<T>(), *gradient = dy.data<T>();
    const A *mu = mean.data<A>(), *rho = rstd.data<A>(), *w = weight.data<A>();
    const A *mean_dy = means.data<A>(), *mean_dy_x = mean_dy + channels;
    T* out = dx.mutable_data<T>();
    ParallelFor(x.shape().Rows(), RowGrain(channels), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T* __restrict from = in + r * channels;
        const T* __restrict g = gradient + r * channels;
        T* __restrict to = out + r * channels;
        for (int64_t c = 0; c < channels; ++c) {
          const A x_hat = (static_cast<A>(from[c]) - mu[c]) * rho[c];
          const A value =
              rho[c] * w[c] * (static_cast<A>(g[c]) - mean_dy[c] - x_hat * mean_dy_x[c]);
          to[c] = static_cast<T>(add ? static_cast<A>(to[c]) + value : value);
        }
      }
    });
  });
}

void TrackStatistic(double momentum, double scale, const Tensor& value, Tensor& running) {
  VisitFloat(running.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* in = value.data<T>();
    T* out = running.mutable_data<T>();
    using A = Accumulate<T>;
    const A kept = static_cast<A>(1 - momentum), added = static_cast<A>(momentum * scale);
    for (int64_t c = 0; c < running.numel(); ++c) {
      // A weight of zero drops even what is not finite.
      const A before = kept == 0 ? A(0) : kept * static_cast<A>(out[c]);
      out[c] = static_cast<T>(added == 0 ? before : before + added * static_cast<A>(in[c]));
    }
  });
}

void ReciprocalDeviation(double epsilon, const Tensor& variance, Tensor& rstd) {
  VisitFloat(variance.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* in = variance.data<T>();
    T* out = rstd.mutable_data<T>();
    for (int64_t c = 0; c < variance.numel(); ++c) {
      using A = Accumulate<T>;
      out[c] = static_cast<T>(1 / std::sqrt(static_cast<A>(in[c]) + static_cast<A>(epsilon)));
    }
  });
}

}  // namespace tost::ops::cpu
