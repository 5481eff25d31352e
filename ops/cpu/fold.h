// A reduction of a contiguous run to one number, in a fixed order that SIMD can follow.
#ifndef TOST_OPS_CPU_FOLD_H_
#define TOST_OPS_CPU_FOLD_H_

#include <cstdint>

namespace tost::ops::cpu {

// combine over map(i), i < count, starting from `identity`. Element i goes to lane i mod 32; the
// lanes, a local array that the compiler keeps in registers, are combined at the end.
template <class A, class Map, class Combine>
A Fold(int64_t count, A identity, const Map& map, const Combine& combine) {
  constexpr int kLanes = 32;
  A result = identity;
  int64_t i = 0;
  if (count >= kLanes) {
    A lanes[kLanes];
    for (A& lane : lanes) lane = identity;
    for (; i + kLanes <= count; i += kLanes) {
      for (int j = 0; j < kLanes; ++j) lanes[j] = combine(lanes[j], map(i + j));
    }
    for (const A& lane : lanes) result = combine(result, lane);
  }
  for (; i < count; ++i) result = combine(result, map(i));
  return result;
}

}  // namespace tost::ops::cpu

#endif  // TOST_OPS_CPU_FOLD_H_
