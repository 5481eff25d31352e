#include "data/image_taps.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tost::data {
namespace {

double Radius(Filter filter) {
  switch (filter) {
    case Filter::kNearest:
    case Filter::kBox:
      return 0.5;
    case Filter::kBilinear:
      return 1;
    case Filter::kBicubic:
      return 2;
    case Filter::kLanczos:
      return 3;
  }
  return 0;
}

double Sinc(double x) {
  if (x == 0) return 1;
  x *= std::numbers::pi;
  return std::sin(x) / x;
}

double Kernel(Filter filter, double x) {
  if (filter == Filter::kBox) return x > -0.5 && x <= 0.5 ? 1 : 0;
  if (filter == Filter::kLanczos) return x >= -3 && x < 3 ? Sinc(x) * Sinc(x / 3) : 0;
  x = std::abs(x);
  if (filter == Filter::kBilinear) return x < 1 ? 1 - x : 0;
  constexpr double a = -0.5;
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

}  // namespace

Taps TapsOf(const Axis& axis, Filter filter) {
  const double scale = axis.scale();
  const double support = Radius(filter) * std::max(scale, 1.0);
  const double inverse = 1.0 / std::max(scale, 1.0);
  const size_t most = static_cast<size_t>(std::ceil(support)) * 2 + 1;
  Taps taps;
  taps.weights.resize(static_cast<size_t>(axis.count) * most);
  std::vector<double> exact(most);
  for (int i = 0; i < axis.count; ++i) {
    const double centre = axis.begin + (static_cast<double>(axis.first + i) + 0.5) * scale;
    const int low = std::max(0, static_cast<int>(centre - support + 0.5));
    const int high = std::min(axis.inputs, static_cast<int>(centre + support + 0.5));
    double sum = 0;
    for (int k = 0; k < high - low; ++k) {
      exact[static_cast<size_t>(k)] = Kernel(filter, (k + low - centre + 0.5) * inverse);
      sum += exact[static_cast<size_t>(k)];
    }
    int32_t* weights = taps.weights.data() + static_cast<size_t>(i) * most;
    for (int k = 0; k < high - low; ++k) {
      const double weight = sum == 0 ? 0 : exact[static_cast<size_t>(k)] / sum;
      weights[k] = static_cast<int32_t>(weight * (1 << kWeightBits) + (weight < 0 ? -0.5 : 0.5));
    }
    taps.outputs.push_back({low, high - low, weights});
  }
  return taps;
}

}  // namespace tost::data
