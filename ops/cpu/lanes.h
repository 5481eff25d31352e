// Vectors of 64 bytes, by the compiler's vector extension: for loops whose sums must stay in
// registers. A plain `#pragma omp simd reduction` adds its lanes up one by one through memory,
// which costs more than a whole head of 64 channels.
#ifndef TOST_OPS_CPU_LANES_H_
#define TOST_OPS_CPU_LANES_H_

#include <cstdint>
#include <cstring>

namespace tost::ops::cpu {

template <class A>
struct LanesOf;
template <>
struct LanesOf<float> {
  typedef float Type __attribute__((vector_size(64)));
  typedef int32_t Mask __attribute__((vector_size(64)));
};
template <>
struct LanesOf<double> {
  typedef double Type __attribute__((vector_size(64)));
  typedef int64_t Mask __attribute__((vector_size(64)));
};
template <class A>
using Lanes = typename LanesOf<A>::Type;
template <class A>
inline constexpr int64_t kLanes = 64 / static_cast<int64_t>(sizeof(A));

// Elements [at, at + kLanes) of rows.
struct WholeLanes {
  int64_t at;

  template <class A>
  Lanes<A> Load(const A* row) const {
    Lanes<A> x;
    std::memcpy(&x, row + at, sizeof(x));
    return x;
  }
  template <class A>
  void Store(A* row, const Lanes<A>& x) const {
    std::memcpy(row + at, &x, sizeof(x));
  }
};

// Elements [at, at + count) of rows, count < kLanes; lanes beyond read 0 and are not written.
struct PartialLanes {
  int64_t at;
  int64_t count;

  template <class A>
  Lanes<A> Load(const A* row) const {
    Lanes<A> x = {};
    for (int64_t i = 0; i < count; ++i) x[i] = row[at + i];
    return x;
  }
  template <class A>
  void Store(A* row, const Lanes<A>& x) const {
    for (int64_t i = 0; i < count; ++i) row[at + i] = x[i];
  }
};

// Calls body(place) for places that together cover [0, count).
template <class A, class Body>
inline __attribute__((always_inline)) void ForLanes(int64_t count, const Body& body) {
  int64_t i = 0;
  for (; i + kLanes<A> <= count; i += kLanes<A>) body(WholeLanes{i});
  if (i < count) body(PartialLanes{i, count - i});
}

// The sum of all lanes, in pairs.
inline float SumLanes(const Lanes<float>& x) {
  typedef float Half __attribute__((vector_size(32)));
  typedef float Quarter __attribute__((vector_size(16)));
  const Half half = __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7) +
                    __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15);
  const Quarter quarter = __builtin_shufflevector(half, half, 0, 1, 2, 3) +
                          __builtin_shufflevector(half, half, 4, 5, 6, 7);
  return (quarter[0] + quarter[2]) + (quarter[1] + quarter[3]);
}
inline double SumLanes(const Lanes<double>& x) {
  typedef double Half __attribute__((vector_size(32)));
  const Half half =
      __builtin_shufflevector(x, x, 0, 1, 2, 3) + __builtin_shufflevector(x, x, 4, 5, 6, 7);
  return (half[0] + half[2]) + (half[1] + half[3]);
}

}  // namespace tost::ops::cpu

#endif  // TOST_OPS_CPU_LANES_H_
