#include "ops/cpu/optimizer_kernels.h"

#include <cstring>
#include <vector>

#include "autograd/base/parallel.h"

namespace tost::ops::cpu {
namespace {

constexpr int64_t kRange = 1 << 16;  // elements; long enough to stream, short enough to spread

// Calls run(T{}) with the dtype of master values.
template <class Run>
void VisitMaster(DType dtype, Run&& run) {
  if (dtype == DType::kFloat64) return run(double{});
  TOST_CHECK(dtype == DType::kFloat32) << "optimizers work on float32 or float64, not " << dtype;
  run(float{});
}

UpdateScalars Scalars(const Tensor& update) {
  UpdateScalars scalars;
  std::memcpy(&scalars, update.data<double>(), sizeof(scalars));
  return scalars;
}

}  // namespace

void SquaredNorm(const Tensor& x, bool add, Tensor& sum) {
  const int64_t ranges = (x.numel() + kRange - 1) / kRange;
  std::vector<double> partial(static_cast<size_t>(ranges));
  VisitMaster(x.dtype(), [&](auto zero) {
    const auto* data = x.data<decltype(zero)>();
    ParallelFor(x.numel(), kRange, [&](int64_t begin, int64_t end) {
      double squares = 0;
#pragma omp simd reduction(+ : squares)
      for (int64_t i = begin; i < end; ++i) {
        squares += static_cast<double>(data[i]) * static_cast<double>(data[i]);
      }
      partial[static_cast<size_t>(begin / kRange)] = squares;
    });
  });
  double total = 0;
  for (double squares : partial) total += squares;
  double* out = sum.mutable_data<double>();
  *out = add ? *out + total : total;
}

void BeginUpdate(const UpdateRule& rule, const Tensor& squares, Tensor& update) {
  const UpdateScalars next = NextUpdate(rule, *squares.data<double>(), Scalars(update));
  std::memcpy(update.mutable_data<double>(), &next, sizeof(next));
}

void AdamW(const AdamWStep& options, const Tensor& update, const Tensor& gradient, Tensor& value,
           Tensor& first, Tensor& second, Tensor& compute) {
  const UpdateScalars scalars = Scalars(update);
  if (scalars.finite == 0) return;
  VisitMaster(value.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const functor::AdamW<T> step(options, scalars);
    const T* gradients = gradient.data<T>();
    T* values = value.mutable_data<T>();
    T *firsts = first.mutable_data<T>(), *seconds = second.mutable_data<T>();
    bfloat16* rounded = compute.defined() ? compute.mutable_data<bfloat16>() : nullptr;
    ParallelFor(value.numel(), kRange, [&](int64_t begin, int64_t end) {
      const T* __restrict g = gradients;
      T* __restrict p = values;
      T* __restrict m = firsts;
      T* __restrict v = seconds;
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) step(g[i], p[i], m[i], v[i]);
      if (rounded == nullptr) return;
      for (int64_t i = begin; i < end; ++i) rounded[i] = bfloat16(p[i]);
    });
  });
}

void Sgd(const SgdStep& options, const Tensor& update, const Tensor& gradient, Tensor& value,
         Tensor& momentum, Tensor& compute) {
  const UpdateScalars scalars = Scalars(update);
  if (scalars.finite == 0) return;
  VisitMaster(value.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const functor::Sgd<T> step(options, scalars);
    const T* g = gradient.data<T>();
    T *p = value.mutable_data<T>(), *b = momentum.mutable_data<T>();
    bfloat16* rounded = compute.defined() ? compute.mutable_data<bfloat16>() : nullptr;
    ParallelFor(value.numel(), kRange, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        step(g[i], p[i], b[i]);
        if (rounded != nullptr) rounded[i] = bfloat16(p[i]);
      }
    });
  });
}

void ExponentialMovingAverage(double decay, const Tensor& update, const Tensor& value,
                              Tensor& average) {
  if (update.defined() && Scalars(update).finite == 0) return;
  VisitMaster(value.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T keep = static_cast<T>(decay), rest = static_cast<T>(1 - decay);
    const T* from = value.data<T>();
    T* to = average.mutable_data<T>();
    ParallelFor(value.numel(), kRange, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[i] = keep * to[i] + rest * from[i];
    });
  });
}

}  // namespace tost::ops::cpu
