// The elementary functions of the functors in ops/*_functors.h, for float and double: the one place
// that decides which library computes them, on any device.
#ifndef TOST_OPS_FUNCTOR_MATH_H_
#define TOST_OPS_FUNCTOR_MATH_H_

#include <cmath>

#include "autograd/base/bfloat16.h"
#include "ops/cpu/simd_math.h"

namespace tost::ops::functor {

using cpu::Erf;
using cpu::Exp;
using cpu::Log;
using cpu::Tanh;

TOST_HD inline float Sqrt(float x) { return std::sqrt(x); }
TOST_HD inline double Sqrt(double x) { return std::sqrt(x); }
TOST_HD inline float Power(float x, float y) { return std::pow(x, y); }
TOST_HD inline double Power(double x, double y) { return std::pow(x, y); }

}  // namespace tost::ops::functor

#endif  // TOST_OPS_FUNCTOR_MATH_H_
