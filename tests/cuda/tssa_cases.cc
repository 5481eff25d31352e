#include "tests/cuda/tssa_cases.h"

#include "autograd/gradcheck.h"
#include "gtest/gtest.h"
#include "tests/cuda/device_test.h"

namespace tost {

std::vector<TssaCase> TssaCases() {
  std::vector<TssaCase> cases = {{1, 1, 1, 1},  {2, 1, 3, 4},   {2, 5, 1, 7},
                                 {3, 2, 4, 1},  {2, 7, 3, 5},   {1, 31, 2, 8},
                                 {1, 32, 3, 9}, {2, 33, 2, 12}, {1, 65, 5, 3}};
  if (SmallShapesOnly()) return cases;
  cases.insert(cases.end(), {{2, 130, 12, 16},
                             {1, 1061, 2, 4},    // 34 chunks
                             {1, 40, 1, 300},    // a head of 75 packs
                             {2, 35, 2, 211},    // and of 211 channels one by one
                             {1, 34, 70, 4},     // more heads than a warp has lanes
                             {1, 33, 3, 512}});  // more packs than a block takes at once
  return cases;
}

std::vector<TssaCase> TssaGradientCases() {
  return {{1, 1, 1, 1}, {2, 1, 3, 2}, {1, 6, 1, 3}, {2, 5, 3, 3}, {1, 3, 2, 17}, {1, 34, 2, 2}};
}

double TssaTolerance(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return 1e-12;
    case DType::kFloat32:
      return 1e-5;
    default:
      return 1.0 / 256;
  }
}

Tensor KeepMask(Shape shape) {
  std::vector<double> values = RandomTensor(shape, /*seed=*/7).ToHost<double>();
  for (double& value : values) value = value < -0.5 ? 0 : 1 / 0.75;
  return Tensor::FromHost(shape, values);
}

Tensor WithZeros(const TssaCase& c, int64_t zero_tokens) {
  constexpr int64_t kZeroChannel = 4;
  std::vector<double> w = RandomTensor(c.Tokens(), /*seed=*/1).ToHost<double>();
  for (int64_t i = 0; i < std::ssize(w); ++i) {
    const int64_t token = i / c.width() % c.tokens, channel = i % c.width();
    double& value = w[static_cast<size_t>(i)];
    if (token < zero_tokens || channel == kZeroChannel) value = 0;
    if (token == zero_tokens) value *= 1e-7;
  }
  return Tensor::FromHost(c.Tokens(), w);
}

void ExpectTwice(const Tensor& a, const Tensor& b) {
  const std::vector<double> twice = a.ToHost<double>(), once = b.ToHost<double>();
  ASSERT_EQ(twice.size(), once.size());
  for (size_t i = 0; i < once.size(); ++i) ASSERT_EQ(twice[i], 2 * once[i]) << i;
}

}  // namespace tost
