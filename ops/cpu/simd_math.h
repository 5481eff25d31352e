// Elementary functions that the compiler vectorises inside plain loops: branch-free polynomials for
// float, the C library for double. A call of std::exp in such a loop would cost six times as much.
//
// Kernels for other devices use them as well: the functors of ops/ are the same polynomials
// anywhere.
//
// All are exact in their special cases: 0, ±inf and NaN map as in std::. Bounds for float, measured
// by tests/ops/simd_math_test.cc against std:: in double over dense sweeps of all exponents:
//
//   Exp      1.5 ulp, subnormal results included          Tanh   2 ulp
//   Log      1.5 ulp, subnormal arguments included        Erf    1 ulp (hence 6e-8 absolute)
//   Gelu, its derivatives, Sigmoid: 3e-7 · max(1, |x|) absolute
#ifndef TOST_OPS_CPU_SIMD_MATH_H_
#define TOST_OPS_CPU_SIMD_MATH_H_

#include <bit>
#include <cmath>
#include <cstdint>

#include "autograd/base/bfloat16.h"

namespace tost::ops::cpu {

// condition ? a : b without a branch. The plain conditional is turned into control flow by GCC's
// jump threading where an operand is constant, and a loop with control flow is not vectorised.
TOST_HD inline float Select(bool condition, float a, float b) {
  const int32_t mask = -static_cast<int32_t>(condition);
  return std::bit_cast<float>((std::bit_cast<int32_t>(a) & mask) |
                              (std::bit_cast<int32_t>(b) & ~mask));
}

// e^x. x = n ln 2 + r with |r| <= ln 2 / 2 and a polynomial for e^r. The scale 2^n is applied in
// two factors, so that results below the smallest normal number and the overflow to inf come out
// right.
TOST_HD inline float Exp(float x) {
  constexpr float kLog2E = 1.44269504089f;
  constexpr float kLn2High = 0.693359375f;  // few bits: n · kLn2High is exact
  constexpr float kLn2Low = -2.12194440e-4f;
  constexpr float kRound = 12582912.0f;  // 1.5 · 2^23: adding it leaves the nearest integer
  x = Select(x > 89.0f, 89.0f, x);
  x = Select(x < -104.0f, -104.0f, x);
  const float shifted = x * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float p = 1.98756912e-4f;
  p = p * r + 1.39819994e-3f;
  p = p * r + 8.33345205e-3f;
  p = p * r + 4.16657962e-2f;
  p = p * r + 1.66666657e-1f;
  p = p * r + 0.5f;
  p = p * (r * r) + r + 1.0f;
  const int32_t exponent = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kRound);
  const int32_t half = exponent >> 1;
  const float scale0 = std::bit_cast<float>((half + 127) << 23);
  const float scale1 = std::bit_cast<float>((exponent - half + 127) << 23);
  return p * scale0 * scale1;
}
TOST_HD inline double Exp(double x) { return std::exp(x); }

// Natural logarithm. x = 2^e · (1 + f) with 1 + f in [√½, √2).
TOST_HD inline float Log(float x) {
  constexpr float kInfinity = __builtin_inff();
  const bool subnormal = x < 1.17549435e-38f;
  const float scaled = Select(subnormal, x * 8388608.0f, x);         // 2^23
  const uint32_t bits = std::bit_cast<uint32_t>(scaled);             // unsigned: may wrap for x < 0
  const int32_t e = static_cast<int32_t>(bits - 0x3f3504f3u) >> 23;  // the bits of √½
  const float f = std::bit_cast<float>(bits - (static_cast<uint32_t>(e) << 23)) - 1.0f;
  const float exponent = static_cast<float>(e) - Select(subnormal, 23.0f, 0.0f);
  const float f2 = f * f;
  float p = 7.0376836292e-2f;
  p = p * f - 1.1514610310e-1f;
  p = p * f + 1.1676998740e-1f;
  p = p * f - 1.2420140846e-1f;
  p = p * f + 1.4249322787e-1f;
  p = p * f - 1.6668057665e-1f;
  p = p * f + 2.0000714765e-1f;
  p = p * f - 2.4999993993e-1f;
  p = p * f + 3.3333331174e-1f;
  float y = p * f * f2 + exponent * -2.12194440e-4f - 0.5f * f2;
  y = f + y + exponent * 0.693359375f;
  y = Select(x < kInfinity, y, x);  // inf and NaN
  y = Select(x == 0.0f, -kInfinity, y);
  return Select(x < 0.0f, __builtin_nanf(""), y);
}
TOST_HD inline double Log(double x) { return std::log(x); }

// The error function: an odd polynomial near 0, 1 − e^q(|x|) away from it. Both sides are evaluated
// and one is chosen.
TOST_HD inline float Erf(float x) {
  const float magnitude = __builtin_fabsf(x);
  const float t = Select(magnitude > 4.0f, 4.0f, magnitude);  // erf(4) rounds to 1
  const float s = t * t;
  float q = -1.72853470e-5f * t + 3.83197126e-4f;
  q = q * s + (-3.88396438e-3f * t + 2.42546219e-2f);
  q = q * t - 1.06777877e-1f;
  q = q * t - 6.34846687e-1f;
  q = q * t - 1.28717512e-1f;
  q = q * t - t;
  const float far = __builtin_copysignf(1.0f - Exp(q), x);
  float p = -5.96761703e-4f;
  p = p * s + 4.99119423e-3f;
  p = p * s - 2.67681349e-2f;
  p = p * s + 1.12819925e-1f;
  p = p * s - 3.76125336e-1f;
  p = p * s + 1.28379166e-1f;
  const float near = p * x + x;
  return Select(t > 0.927734375f, far, near);
}
TOST_HD inline double Erf(double x) { return std::erf(x); }

// Hyperbolic tangent: an odd polynomial near 0, 1 − 2 / (e^2|x| + 1) away from it.
TOST_HD inline float Tanh(float x) {
  const float magnitude = __builtin_fabsf(x);
  const float t = Select(magnitude > 10.0f, 10.0f, magnitude);  // tanh(10) rounds to 1
  const float far = 1.0f - 2.0f / (Exp(2.0f * t) + 1.0f);
  const float s = t * t;
  float p = -5.70498872745e-3f;
  p = p * s + 2.06390887954e-2f;
  p = p * s - 5.37397155531e-2f;
  p = p * s + 1.33314422036e-1f;
  p = p * s - 3.33332819422e-1f;
  const float near = p * s * t + t;
  return __builtin_copysignf(Select(t > 0.625f, far, near), x);
}
TOST_HD inline double Tanh(double x) { return std::tanh(x); }

// 1 / (1 + e^−x).
template <class T>
TOST_HD inline T Sigmoid(T x) {
  return T(1) / (T(1) + Exp(-x));
}

// The normal distribution function Φ(x) and e^(−x²/2), which GELU and its derivative share. With
// t = 1 / (1 + 0.325 |x|), Φ(−|x|) = e^(−x²/2) · t · polynomial(t): one exponential serves both,
// and the lower tail keeps its relative precision, which ½ (1 + erf) would lose.
template <class T>
struct Normal {
  T distribution;
  T bell;
};

TOST_HD inline Normal<float> NormalOf(float x) {
  const float bell = Exp(-0.5f * x * x);
  const float t = 1.0f / (1.0f + 0.325269119f * __builtin_fabsf(x));
  float p = 0.0447973029f;  // fitted to |x| <= 9.3; error of Φ 2e-9 before rounding
  p = p * t - 0.225770176f;
  p = p * t + 0.357764877f;
  p = p * t - 0.114166438f;
  p = p * t + 0.191616935f;
  p = p * t + 0.114772278f;
  p = p * t + 0.130985221f;
  const float tail = p * t * bell;
  return {Select(x > 0.0f, 1.0f - tail, tail), bell};
}
TOST_HD inline Normal<double> NormalOf(double x) {
  return {0.5 * std::erfc(-x * 0.70710678118654752440), std::exp(-0.5 * x * x)};
}

// x Φ(x).
template <class T>
TOST_HD inline T GeluErf(T x) {
  return x * NormalOf(x).distribution;
}

// Φ(x) + x φ(x) with φ(x) = e^(−x²/2) / √(2π).
template <class T>
TOST_HD inline T GeluErfGrad(T x) {
  const Normal<T> normal = NormalOf(x);
  return normal.distribution + x * (T(0.39894228040143267794) * normal.bell);
}

// ½ x (1 + tanh(√(2/π) (x + 0.044715 x³))).
template <class T>
TOST_HD inline T GeluTanh(T x) {
  const T u = T(0.79788456080286535588) * x * (T(1) + T(0.044715) * x * x);
  return T(0.5) * x * (T(1) + Tanh(u));
}

template <class T>
TOST_HD inline T GeluTanhGrad(T x) {
  const T x2 = x * x;
  const T th = Tanh(T(0.79788456080286535588) * x * (T(1) + T(0.044715) * x2));
  const T du = T(0.79788456080286535588) * (T(1) + T(3 * 0.044715) * x2);
  return T(0.5) * (T(1) + th) + T(0.5) * x * (T(1) - th * th) * du;
}

}  // namespace tost::ops::cpu

#endif  // TOST_OPS_CPU_SIMD_MATH_H_
