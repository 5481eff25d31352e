// The elementwise ops of two operands, one struct each, like those of ops/unary_functors.h.
#ifndef TOST_OPS_BINARY_FUNCTORS_H_
#define TOST_OPS_BINARY_FUNCTORS_H_

#include "autograd/base/bfloat16.h"
#include "ops/functor_math.h"

namespace tost::ops::functor {

// Forward(a, b) → y, Left(a, b, dy) → da, Right(a, b, dy) → db. kLeftReads… say which
// operands' values these read; only those are kept for backward.

struct Product {
  static constexpr const char* kName = "multiply";
  static constexpr bool kLeftReadsA = false, kLeftReadsB = true;
  static constexpr bool kRightReadsA = true, kRightReadsB = false;
  template <class T>
  TOST_HD T Forward(T a, T b) const {
    return a * b;
  }
  template <class T>
  TOST_HD T Left(T, T b, T dy) const {
    return dy * b;
  }
  template <class T>
  TOST_HD T Right(T a, T, T dy) const {
    return dy * a;
  }
};

struct Quotient {
  static constexpr const char* kName = "divide";
  static constexpr bool kLeftReadsA = false, kLeftReadsB = true;
  static constexpr bool kRightReadsA = true, kRightReadsB = true;
  template <class T>
  TOST_HD T Forward(T a, T b) const {
    return a / b;
  }
  template <class T>
  TOST_HD T Left(T, T b, T dy) const {
    return dy / b;
  }
  template <class T>
  TOST_HD T Right(T a, T b, T dy) const {
    return -dy * a / (b * b);
  }
};

// a^b. da = b a^(b−1), 0 for b = 0; db = a^b log a, 0 for a = 0.
struct PowerOf {
  static constexpr const char* kName = "pow";
  static constexpr bool kLeftReadsA = true, kLeftReadsB = true;
  static constexpr bool kRightReadsA = true, kRightReadsB = true;
  template <class T>
  TOST_HD T Forward(T a, T b) const {
    return Power(a, b);
  }
  template <class T>
  TOST_HD T Left(T a, T b, T dy) const {
    return b == T(0) ? T(0) : dy * b * Power(a, b - T(1));
  }
  template <class T>
  TOST_HD T Right(T a, T b, T dy) const {
    return a == T(0) ? T(0) : dy * Power(a, b) * Log(a);
  }
};

// The larger operand. Equal operands share the gradient half and half; a NaN operand is the result.
struct Larger {
  static constexpr const char* kName = "maximum";
  static constexpr bool kLeftReadsA = true, kLeftReadsB = true;
  static constexpr bool kRightReadsA = true, kRightReadsB = true;
  template <class T>
  TOST_HD T Forward(T a, T b) const {
    return a > b || a != a ? a : b;
  }
  template <class T>
  TOST_HD T Left(T a, T b, T dy) const {
    return a > b ? dy : (a == b ? T(0.5) * dy : T(0));
  }
  template <class T>
  TOST_HD T Right(T a, T b, T dy) const {
    return b > a ? dy : (a == b ? T(0.5) * dy : T(0));
  }
};

struct Smaller {
  static constexpr const char* kName = "minimum";
  static constexpr bool kLeftReadsA = true, kLeftReadsB = true;
  static constexpr bool kRightReadsA = true, kRightReadsB = true;
  template <class T>
  TOST_HD T Forward(T a, T b) const {
    return a < b || a != a ? a : b;
  }
  template <class T>
  TOST_HD T Left(T a, T b, T dy) const {
    return a < b ? dy : (a == b ? T(0.5) * dy : T(0));
  }
  template <class T>
  TOST_HD T Right(T a, T b, T dy) const {
    return b < a ? dy : (a == b ? T(0.5) * dy : T(0));
  }
};

// Without gradient, or with one that ops/elementwise.cc writes down itself: Forward only.

struct Sum {
  static constexpr const char* kName = "add";
  template <class T>
  TOST_HD T Forward(T a, T b) const {
    return a + b;
  }
};

struct Difference {
  static constexpr const char* kName = "subtract";
  template <class T>
  TOST_HD T Forward(T a, T b) const {
    return a - b;
  }
};

struct IsLess {
  static constexpr const char* kName = "less";
  template <class T>
  TOST_HD T Forward(T a, T b) const {
    return a < b ? T(1) : T(0);
  }
};

struct IsLessEqual {
  static constexpr const char* kName = "less_equal";
  template <class T>
  TOST_HD T Forward(T a, T b) const {
    return a <= b ? T(1) : T(0);
  }
};

struct IsGreater {
  static constexpr const char* kName = "greater";
  template <class T>
  TOST_HD T Forward(T a, T b) const {
    return a > b ? T(1) : T(0);
  }
};

struct IsGreaterEqual {
  static constexpr const char* kName = "greater_equal";
  template <class T>
  TOST_HD T Forward(T a, T b) const {
    return a >= b ? T(1) : T(0);
  }
};

struct IsEqual {
  static constexpr const char* kName = "equal";
  template <class T>
  TOST_HD T Forward(T a, T b) const {
    return a == b ? T(1) : T(0);
  }
};

// value where the mask is not 0 (KeepWhere), or where it is 0 (KeepUnless); 0 elsewhere. The
// gradients of Where.
struct KeepWhere {
  static constexpr const char* kName = "keep_where";
  template <class T>
  TOST_HD T Forward(T mask, T value) const {
    return mask != T(0) ? value : T(0);
  }
};

struct KeepUnless {
  static constexpr const char* kName = "keep_unless";
  template <class T>
  TOST_HD T Forward(T mask, T value) const {
    return mask != T(0) ? T(0) : value;
  }
};

}  // namespace tost::ops::functor

#endif  // TOST_OPS_BINARY_FUNCTORS_H_
