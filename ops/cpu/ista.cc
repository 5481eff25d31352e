#include "ops/cpu/ista.h"

#include <algorithm>

#include "autograd/base/parallel.h"
#include "ops/ista.h"

namespace tost::ops::cpu {
namespace {

// Calls run(type, begin, end) on ranges of the elements of x.
template <class Run>
void ForElements(const Tensor& x, Run&& run) {
  VisitFloat(x.dtype(), [&](auto zero) {
    ParallelFor(x.numel(), RowGrain(1), [&](int64_t begin, int64_t end) { run(zero, begin, end); });
  });
}

}  // namespace

void IstaResidual(const Tensor& z, Tensor& x) {
  std::byte* bytes = x.mutable_raw();
  ForElements(x, [&](auto zero, int64_t begin, int64_t end) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    const T* __restrict from = z.data<T>();
    T* __restrict to = reinterpret_cast<T*>(bytes);
    for (int64_t i = begin; i < end; ++i) {
      to[i] = static_cast<T>(static_cast<A>(to[i]) - static_cast<A>(from[i]));
    }
  });
}

void IstaThreshold(const IstaOptions& options, const Tensor& z, Tensor& m) {
  std::byte* bytes = m.mutable_raw();
  ForElements(m, [&](auto zero, int64_t begin, int64_t end) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    const T* __restrict from = z.data<T>();
    T* __restrict to = reinterpret_cast<T*>(bytes);
    const A step = static_cast<A>(options.step), sparsity = static_cast<A>(options.sparsity);
    for (int64_t i = begin; i < end; ++i) {
      const A u = static_cast<A>(from[i]) - step * (static_cast<A>(to[i]) + sparsity);
      to[i] = static_cast<T>(std::max(u, A(0)));
    }
  });
}

void IstaGradient(const IstaOptions& options, const Tensor& y, const Tensor& dy, Tensor& g) {
  std::byte* bytes = g.mutable_raw();
  ForElements(g, [&](auto zero, int64_t begin, int64_t end) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    const T* __restrict value = y.data<T>();
    const T* __restrict gradient = dy.data<T>();
    T* __restrict to = reinterpret_cast<T*>(bytes);
    const A factor = -static_cast<A>(options.step);
    for (int64_t i = begin; i < end; ++i) {
      const A flows = static_cast<A>(value[i]) > 0 ? factor : A(0);
      to[i] = static_cast<T>(flows * static_cast<A>(gradient[i]));
    }
  });
}

void IstaCombine(const Tensor& y, const Tensor& dy, const Tensor& n, const Tensor& e, bool add,
                 Tensor& dz) {
  std::byte* bytes = dz.mutable_raw();
  ForElements(dz, [&](auto zero, int64_t begin, int64_t end) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    const T* __restrict value = y.data<T>();
    const T* __restrict gradient = dy.data<T>();
    const T* __restrict minus = n.data<T>();
    const T* __restrict plus = e.data<T>();
    T* __restrict to = reinterpret_cast<T*>(bytes);
    for (int64_t i = begin; i < end; ++i) {
      const A du = static_cast<A>(value[i]) > 0 ? static_cast<A>(gradient[i]) : A(0);
      const A sum = du - static_cast<A>(minus[i]) + static_cast<A>(plus[i]);
      to[i] = static_cast<T>(add ? static_cast<A>(to[i]) + sum : sum);
    }
  });
}

}  // namespace tost::ops::cpu
