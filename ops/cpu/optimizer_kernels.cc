#include "ops/cpu/optimizer_kernels.h"

#include <cmath>
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

// The factors of AdamWStep, in the type in which the loop computes.
template <class T>
struct AdamWFactors {
  explicit AdamWFactors(const AdamWStep& o)
      : keep(static_cast<T>(1 - o.learning_rate * o.weight_decay)),
        beta1(static_cast<T>(o.beta1)),
        beta2(static_cast<T>(o.beta2)),
        rest1(static_cast<T>(1 - o.beta1)),
        rest2(static_cast<T>(1 - o.beta2)),
        clip(static_cast<T>(o.clip_factor)),
        rate(
            static_cast<T>(o.learning_rate / (1 - std::pow(o.beta1, static_cast<double>(o.step))))),
        root(static_cast<T>(1 / std::sqrt(1 - std::pow(o.beta2, static_cast<double>(o.step))))),
        epsilon(static_cast<T>(o.epsilon)) {}
  T keep, beta1, beta2, rest1, rest2, clip, rate, root, epsilon;
};

template <class T>
void AdamWRange(const AdamWFactors<T>& f, int64_t count, const T* __restrict gradient,
                T* __restrict value, T* __restrict first, T* __restrict second) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const T g = gradient[i] * f.clip;
    const T m = f.beta1 * first[i] + f.rest1 * g;
    const T v = f.beta2 * second[i] + f.rest2 * g * g;
    first[i] = m;
    second[i] = v;
    value[i] = value[i] * f.keep - f.rate * m / (std::sqrt(v) * f.root + f.epsilon);
  }
}

}  // namespace

double SquaredNorm(const Tensor& x) {
  const int64_t ranges = (x.numel() + kRange - 1) / kRange;
  std::vector<double> partial(static_cast<size_t>(ranges));
  VisitMaster(x.dtype(), [&](auto zero) {
    const auto* data = x.data<decltype(zero)>();
    ParallelFor(x.numel(), kRange, [&](int64_t begin, int64_t end) {
      double sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t i = begin; i < end; ++i) {
        sum += static_cast<double>(data[i]) * static_cast<double>(data[i]);
      }
      partial[static_cast<size_t>(begin / kRange)] = sum;
    });
  });
  double total = 0;
  for (double sum : partial) total += sum;
  return total;
}

void AdamW(const AdamWStep& options, const Tensor& gradient, Tensor& value, Tensor& first,
           Tensor& second, Tensor& compute) {
  VisitMaster(value.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const AdamWFactors<T> factors(options);
    const T* g = gradient.data<T>();
    T *p = value.mutable_data<T>(), *m = first.mutable_data<T>(), *v = second.mutable_data<T>();
    bfloat16* rounded = compute.defined() ? compute.mutable_data<bfloat16>() : nullptr;
    ParallelFor(value.numel(), kRange, [&](int64_t begin, int64_t end) {
      AdamWRange(factors, end - begin, g + begin, p + begin, m + begin, v + begin);
      if (rounded == nullptr) return;
      for (int64_t i = begin; i < end; ++i) rounded[i] = bfloat16(p[i]);
    });
  });
}

void Sgd(const SgdStep& options, const Tensor& gradient, Tensor& value, Tensor& momentum,
         Tensor& compute) {
  VisitMaster(value.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T keep = static_cast<T>(options.first_step ? 0 : options.momentum);
    const T rate = static_cast<T>(options.learning_rate);
    const T clip = static_cast<T>(options.clip_factor);
    const T decay = static_cast<T>(options.weight_decay);
    const T* g = gradient.data<T>();
    T *p = value.mutable_data<T>(), *b = momentum.mutable_data<T>();
    bfloat16* rounded = compute.defined() ? compute.mutable_data<bfloat16>() : nullptr;
    ParallelFor(value.numel(), kRange, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T pull = clip * g[i] + decay * p[i];
        // At the first step the buffer's contents are arbitrary and must not be read.
        b[i] = keep == 0 ? pull : keep * b[i] + pull;
        p[i] -= rate * b[i];
        if (rounded != nullptr) rounded[i] = bfloat16(p[i]);
      }
    });
  });
}

void ExponentialMovingAverage(double decay, const Tensor& value, Tensor& average) {
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
