// Error bounds of the vectorised elementary functions, measured against the C library in double.
#include "ops/cpu/simd_math.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace tost::ops::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Floats of every sign and exponent: each 4099th bit pattern (a prime, so that the mantissas
// differ).
std::vector<float> AllExponents() {
  std::vector<float> values;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 4099) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (!std::isnan(value)) values.push_back(value);
  }
  return values;
}

// Where functions bend: evenly spaced in [-12, 12].
std::vector<float> NearZero() {
  std::vector<float> values;
  for (int i = -600000; i <= 600000; ++i) values.push_back(static_cast<float>(i) * 2e-5f);
  return values;
}

// |got − want| in units of the last place of a float of want's size.
double Ulps(float got, double want) {
  const float rounded = static_cast<float>(want);
  if (std::isnan(rounded)) return std::isnan(got) ? 0 : kInfinity;
  if (std::isinf(rounded) || got == rounded) return got == rounded ? 0 : kInfinity;
  const int exponent = want == 0 ? -126 : std::max(std::ilogb(want), -126);
  return std::abs(static_cast<double>(got) - want) / std::ldexp(1.0, exponent - 23);
}

template <class Function, class Truth>
double WorstUlps(Function function, Truth truth) {
  double worst = 0;
  for (const std::vector<float>& values : {AllExponents(), NearZero()}) {
    std::vector<float> results(values.size());
    for (size_t i = 0; i < values.size(); ++i) results[i] = function(values[i]);
    for (size_t i = 0; i < values.size(); ++i) {
      worst = std::max(worst, Ulps(results[i], truth(static_cast<double>(values[i]))));
    }
  }
  return worst;
}

// Largest |got − want| / max(1, |x|) for finite x.
template <class Function, class Truth>
double WorstAbsolute(Function function, Truth truth) {
  double worst = 0;
  for (const std::vector<float>& values : {AllExponents(), NearZero()}) {
    for (const float x : values) {
      if (!(std::abs(x) < 1e15f)) continue;  // x³ inside the tanh form stays finite
      const double error = std::abs(static_cast<double>(function(x)) - truth(x));
      worst = std::max(worst, error / std::max(1.0, std::abs(static_cast<double>(x))));
    }
  }
  return worst;
}

TEST(SimdMath, Exp) {
  EXPECT_LE(WorstUlps([](float x) { return Exp(x); }, [](double x) { return std::exp(x); }), 1.5);
  EXPECT_EQ(Exp(0.0f), 1.0f);
  EXPECT_EQ(Exp(-0.0f), 1.0f);
  EXPECT_EQ(Exp(kInfinity), kInfinity);
  EXPECT_EQ(Exp(-kInfinity), 0.0f);
  EXPECT_TRUE(std::isnan(Exp(kNan)));
}

TEST(SimdMath, Log) {
  EXPECT_LE(WorstUlps([](float x) { return Log(x); }, [](double x) { return std::log(x); }), 1.5);
  EXPECT_EQ(Log(1.0f), 0.0f);
  EXPECT_EQ(Log(0.0f), -kInfinity);
  EXPECT_EQ(Log(-0.0f), -kInfinity);
  EXPECT_EQ(Log(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(Log(-1.0f)));
  EXPECT_TRUE(std::isnan(Log(-kInfinity)));
  EXPECT_TRUE(std::isnan(Log(kNan)));
}

TEST(SimdMath, Erf) {
  EXPECT_LE(WorstUlps([](float x) { return Erf(x); }, [](double x) { return std::erf(x); }), 1.5);
  EXPECT_LE(WorstAbsolute([](float x) { return Erf(x); }, [](double x) { return std::erf(x); }),
            1e-7);
  EXPECT_EQ(Erf(kInfinity), 1.0f);
  EXPECT_EQ(Erf(-kInfinity), -1.0f);
  EXPECT_EQ(std::bit_cast<uint32_t>(Erf(-0.0f)), std::bit_cast<uint32_t>(-0.0f));
  EXPECT_TRUE(std::isnan(Erf(kNan)));
}

TEST(SimdMath, Tanh) {
  EXPECT_LE(WorstUlps([](float x) { return Tanh(x); }, [](double x) { return std::tanh(x); }), 2);
  EXPECT_EQ(Tanh(kInfinity), 1.0f);
  EXPECT_EQ(Tanh(-kInfinity), -1.0f);
  EXPECT_EQ(std::bit_cast<uint32_t>(Tanh(-0.0f)), std::bit_cast<uint32_t>(-0.0f));
  EXPECT_TRUE(std::isnan(Tanh(kNan)));
}

// The bound of a float formula: a few roundings of a value of size max(1, |x|).
constexpr double kFormulaError = 3e-7;

TEST(SimdMath, GeluAndItsDerivative) {
  EXPECT_LE(WorstAbsolute(GeluErf<float>, GeluErf<double>), kFormulaError);
  EXPECT_LE(WorstAbsolute(GeluErfGrad<float>, GeluErfGrad<double>), kFormulaError);
  EXPECT_LE(WorstAbsolute(GeluTanh<float>, GeluTanh<double>), kFormulaError);
  EXPECT_LE(WorstAbsolute(Sigmoid<float>, Sigmoid<double>), kFormulaError);
  EXPECT_EQ(GeluErf(0.0f), 0.0f);
  EXPECT_EQ(GeluErf(30.0f), 30.0f);
  EXPECT_EQ(GeluErf(-30.0f), 0.0f);
  // The lower tail keeps its relative precision, 4e-5, where ½ (1 + erf) has none left.
  for (double x = -8; x < 0; x += 0.01) {
    EXPECT_NEAR(GeluErf(static_cast<float>(x)) / GeluErf(x), 1.0, 4e-5);
  }
}

// Derivatives against differences of the functions, in double: central, step 1e-5, error 1e-10.
TEST(SimdMath, DerivativesBelongToTheirFunctions) {
  for (double x = -6; x <= 6; x += 0.013) {
    const double h = 1e-5;
    EXPECT_NEAR(GeluErfGrad(x), (GeluErf(x + h) - GeluErf(x - h)) / (2 * h), 1e-9);
    EXPECT_NEAR(GeluTanhGrad(x), (GeluTanh(x + h) - GeluTanh(x - h)) / (2 * h), 1e-9);
    EXPECT_NEAR(GeluTanhGrad(static_cast<float>(x)), GeluTanhGrad(x), 4 * kFormulaError);
  }
}

TEST(SimdMath, DoubleIsTheLibrary) {
  EXPECT_EQ(Exp(0.3), std::exp(0.3));
  EXPECT_EQ(Log(0.3), std::log(0.3));
  EXPECT_EQ(Erf(0.3), std::erf(0.3));
  EXPECT_EQ(Tanh(0.3), std::tanh(0.3));
}

}  // namespace
}  // namespace tost::ops::cpu
