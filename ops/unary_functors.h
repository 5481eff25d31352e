// The elementwise ops, one struct each: what a single element becomes, and how its gradient flows.
// Loops over elements, on any device, are generic over these structs; adding an op is adding one
// here, a line to the instantiations of ops/cpu/elementwise.cc, and a function to
// ops/elementwise.h.
//
// T is float or double; bfloat16 elements are computed in float. Nothing but arithmetic is used
// here, so that a kernel for another device can include this file.
#ifndef TOST_OPS_UNARY_FUNCTORS_H_
#define TOST_OPS_UNARY_FUNCTORS_H_

#include "autograd/base/bfloat16.h"
#include "ops/functor_math.h"

namespace tost::ops::functor {

// What Backward's first argument is: the op's input, its output, or nothing that it would read.
enum class Reads { kNothing, kInput, kOutput };

// Each has Forward(x) → y and Backward(x or y, dy) → dx.

// scale · x + shift
struct Affine {
  static constexpr const char* kName = "affine";
  static constexpr Reads kReads = Reads::kNothing;
  double scale, shift;
  template <class T>
  TOST_HD T Forward(T x) const {
    return T(scale) * x + T(shift);
  }
  template <class T>
  TOST_HD T Backward(T, T dy) const {
    return T(scale) * dy;
  }
};

// x / divisor
struct DivideByScalar {
  static constexpr const char* kName = "divide_by_scalar";
  static constexpr Reads kReads = Reads::kNothing;
  double divisor;
  template <class T>
  TOST_HD T Forward(T x) const {
    return x / T(divisor);
  }
  template <class T>
  TOST_HD T Backward(T, T dy) const {
    return dy / T(divisor);
  }
};

// dividend / x
struct DivideScalarBy {
  static constexpr const char* kName = "divide_scalar_by";
  static constexpr Reads kReads = Reads::kInput;
  double dividend;
  template <class T>
  TOST_HD T Forward(T x) const {
    return T(dividend) / x;
  }
  template <class T>
  TOST_HD T Backward(T x, T dy) const {
    return -dy * T(dividend) / (x * x);
  }
};

struct Exponential {
  static constexpr const char* kName = "exp";
  static constexpr Reads kReads = Reads::kOutput;
  template <class T>
  TOST_HD T Forward(T x) const {
    return Exp(x);
  }
  template <class T>
  TOST_HD T Backward(T y, T dy) const {
    return dy * y;
  }
};

struct Logarithm {
  static constexpr const char* kName = "log";
  static constexpr Reads kReads = Reads::kInput;
  template <class T>
  TOST_HD T Forward(T x) const {
    return Log(x);
  }
  template <class T>
  TOST_HD T Backward(T x, T dy) const {
    return dy / x;
  }
};

struct SquareRoot {
  static constexpr const char* kName = "sqrt";
  static constexpr Reads kReads = Reads::kOutput;
  template <class T>
  TOST_HD T Forward(T x) const {
    return Sqrt(x);
  }
  template <class T>
  TOST_HD T Backward(T y, T dy) const {
    return T(0.5) * dy / y;
  }
};

// x^−½
struct ReciprocalRoot {
  static constexpr const char* kName = "rsqrt";
  static constexpr Reads kReads = Reads::kOutput;
  template <class T>
  TOST_HD T Forward(T x) const {
    return T(1) / Sqrt(x);
  }
  template <class T>
  TOST_HD T Backward(T y, T dy) const {
    return T(-0.5) * dy * y * y * y;
  }
};

// x^exponent. The derivative of x^0 is 0 everywhere, also at 0, where 0 · 0^−1 would be NaN.
struct PowerOfScalar {
  static constexpr const char* kName = "pow_scalar";
  static constexpr Reads kReads = Reads::kInput;
  double exponent;
  template <class T>
  TOST_HD T Forward(T x) const {
    return Power(x, T(exponent));
  }
  template <class T>
  TOST_HD T Backward(T x, T dy) const {
    return exponent == 0 ? T(0) : dy * T(exponent) * Power(x, T(exponent - 1));
  }
};

struct SquareOf {
  static constexpr const char* kName = "square";
  static constexpr Reads kReads = Reads::kInput;
  template <class T>
  TOST_HD T Forward(T x) const {
    return x * x;
  }
  template <class T>
  TOST_HD T Backward(T x, T dy) const {
    return T(2) * dy * x;
  }
};

// |x|, with slope 0 at 0.
struct AbsoluteValue {
  static constexpr const char* kName = "abs";
  static constexpr Reads kReads = Reads::kInput;
  template <class T>
  TOST_HD T Forward(T x) const {
    return x < T(0) ? -x : x;
  }
  template <class T>
  TOST_HD T Backward(T x, T dy) const {
    return x > T(0) ? dy : (x < T(0) ? -dy : T(0));
  }
};

// max(x, 0), with slope 0 at 0; NaN stays NaN.
struct Rectifier {
  static constexpr const char* kName = "relu";
  static constexpr Reads kReads = Reads::kOutput;
  template <class T>
  TOST_HD T Forward(T x) const {
    return x < T(0) ? T(0) : x;
  }
  template <class T>
  TOST_HD T Backward(T y, T dy) const {
    return y > T(0) ? dy : T(0);
  }
};

struct Logistic {
  static constexpr const char* kName = "sigmoid";
  static constexpr Reads kReads = Reads::kOutput;
  template <class T>
  TOST_HD T Forward(T x) const {
    return T(1) / (T(1) + Exp(-x));
  }
  template <class T>
  TOST_HD T Backward(T y, T dy) const {
    return dy * y * (T(1) - y);
  }
};

struct HyperbolicTangent {
  static constexpr const char* kName = "tanh";
  static constexpr Reads kReads = Reads::kOutput;
  template <class T>
  TOST_HD T Forward(T x) const {
    return Tanh(x);
  }
  template <class T>
  TOST_HD T Backward(T y, T dy) const {
    return dy * (T(1) - y * y);
  }
};

// x Φ(x), with Φ = ½ (1 + erf(x / √2)) and φ = Φ′.
struct GeluExact {
  static constexpr const char* kName = "gelu";
  static constexpr Reads kReads = Reads::kInput;
  template <class T>
  TOST_HD static T Distribution(T x) {
    return T(0.5) * (T(1) + Erf(x * T(0.70710678118654752440)));
  }
  template <class T>
  TOST_HD T Forward(T x) const {
    return x * Distribution(x);
  }
  template <class T>
  TOST_HD T Backward(T x, T dy) const {
    const T density = T(0.39894228040143267794) * Exp(T(-0.5) * x * x);
    return dy * (Distribution(x) + x * density);
  }
};

// ½ x (1 + tanh u), u = √(2/π) (x + 0.044715 x³).
struct GeluByTanh {
  static constexpr const char* kName = "gelu_tanh";
  static constexpr Reads kReads = Reads::kInput;
  static constexpr double kScale = 0.79788456080286535588;
  static constexpr double kCubic = 0.044715;
  template <class T>
  TOST_HD T Forward(T x) const {
    const T u = T(kScale) * (x + T(kCubic) * x * x * x);
    return T(0.5) * x * (T(1) + Tanh(u));
  }
  template <class T>
  TOST_HD T Backward(T x, T dy) const {
    const T t = Tanh(T(kScale) * (x + T(kCubic) * x * x * x));
    const T du = T(kScale) * (T(1) + T(3 * kCubic) * x * x);
    return dy * (T(0.5) * (T(1) + t) + T(0.5) * x * (T(1) - t * t) * du);
  }
};

// min(max(x, low), high). The slope is 1 on the closed interval, 0 outside; NaN stays NaN.
struct Clamped {
  static constexpr const char* kName = "clamp";
  static constexpr Reads kReads = Reads::kInput;
  double low, high;
  template <class T>
  TOST_HD T Forward(T x) const {
    const T least = T(low), most = T(high);
    const T raised = x < least ? least : x;
    return raised > most ? most : raised;
  }
  template <class T>
  TOST_HD T Backward(T x, T dy) const {
    const T least = T(low), most = T(high);
    const T below_most = x > most ? T(0) : dy;
    return x < least ? T(0) : below_most;
  }
};

}  // namespace tost::ops::functor

#endif  // TOST_OPS_UNARY_FUNCTORS_H_
