// The reductions, one struct each: what an element contributes and how contributions combine.
// `center` is a number per result (the mean, the maximum) that some of them measure from. Usable by
// a kernel for any device, like ops/unary_functors.h.
#ifndef TOST_OPS_REDUCE_FUNCTORS_H_
#define TOST_OPS_REDUCE_FUNCTORS_H_

#include "autograd/base/bfloat16.h"
#include "ops/functor_math.h"

namespace tost::ops::functor {

// Σ x
struct Total {
  static constexpr const char* kName = "sum";
  static constexpr bool kCentered = false;
  template <class T>
  TOST_HD static T Identity() {
    return T(0);
  }
  template <class T>
  TOST_HD static T Map(T x, T) {
    return x;
  }
  template <class T>
  TOST_HD static T Combine(T a, T b) {
    return a + b;
  }
};

// max x; NaN if one is there.
struct Largest : Total {
  static constexpr const char* kName = "max";
  template <class T>
  TOST_HD static T Identity() {
    return -static_cast<T>(__builtin_inff());
  }
  template <class T>
  TOST_HD static T Combine(T a, T b) {
    return a > b || a != a ? a : b;
  }
  template <class T>
  TOST_HD static T Slope(T x, T center) {
    return x == center ? T(1) : T(0);
  }
};

// How many elements equal the center.
struct CountEqual : Total {
  static constexpr const char* kName = "count_equal";
  static constexpr bool kCentered = true;
  template <class T>
  TOST_HD static T Map(T x, T center) {
    return x == center ? T(1) : T(0);
  }
};

// Σ (x − center)²; Slope is the derivative of Map in x.
struct SquaredDeviation : Total {
  static constexpr const char* kName = "squared_deviation";
  static constexpr bool kCentered = true;
  template <class T>
  TOST_HD static T Map(T x, T center) {
    return (x - center) * (x - center);
  }
  template <class T>
  TOST_HD static T Slope(T x, T center) {
    return T(2) * (x - center);
  }
};

// Σ e^(x − center)
struct SumOfExponentials : Total {
  static constexpr const char* kName = "sum_of_exponentials";
  static constexpr bool kCentered = true;
  template <class T>
  TOST_HD static T Map(T x, T center) {
    return Exp(x - center);
  }
  template <class T>
  TOST_HD static T Slope(T x, T center) {
    return Exp(x - center);
  }
};

}  // namespace tost::ops::functor

#endif  // TOST_OPS_REDUCE_FUNCTORS_H_
