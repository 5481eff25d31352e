// The CPU matrix product: every form against a loop in double, and the same bits for any threads.
#include "ops/cpu/gemm.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "autograd/base/parallel.h"
#include "autograd/base/philox.h"
#include "autograd/tensor.h"
#include "gtest/gtest.h"

namespace tost::ops::cpu {
namespace {

struct Case {
  int64_t m, n, k;
  bool transpose_a, transpose_b, add;
};

// Rows longer than the matrix, so that a kernel that ignores strides fails.
constexpr int64_t kPadding = 3;

template <class T>
struct Operand {
  Operand(int64_t rows, int64_t columns, uint32_t draw)
      : stride(columns + kPadding), values(static_cast<size_t>(rows * stride)) {
    const RandomKey key{.seed = 1, .draw = draw};
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<T>(2 * Uniform(key, 0, static_cast<int64_t>(i)) - 1);
    }
  }
  double At(int64_t row, int64_t column, bool transposed) const {
    const int64_t place = transposed ? column * stride + row : row * stride + column;
    return static_cast<double>(values[static_cast<size_t>(place)]);
  }
  int64_t stride;
  std::vector<T> values;
};

template <class T, class Out>
struct Problem {
  explicit Problem(const Case& of)
      : form(of),
        a(form.transpose_a ? form.k : form.m, form.transpose_a ? form.m : form.k, 1),
        b(form.transpose_b ? form.n : form.k, form.transpose_b ? form.k : form.n, 2),
        c(form.m, form.n, 3) {}

  std::vector<Out> Run(int threads) const {
    std::vector<Out> out = c.values;
    const int before = ThreadCount();
    SetThreadCount(threads);
    Gemm(form.m, form.n, form.k, MatrixView<T>{a.values.data(), a.stride, form.transpose_a},
         MatrixView<T>{b.values.data(), b.stride, form.transpose_b}, form.add, out.data(),
         c.stride);
    SetThreadCount(before);
    return out;
  }

  // Compares with sums in double; the padding must be untouched.
  void ExpectRight(double tolerance) const {
    const std::vector<Out> out = Run(2);
    for (int64_t i = 0; i < form.m; ++i) {
      for (int64_t j = 0; j < c.stride; ++j) {
        const double got = static_cast<double>(out[static_cast<size_t>(i * c.stride + j)]);
        const double before = c.At(i, j, false);
        if (j >= form.n) {
          ASSERT_EQ(got, before) << "padding of row " << i;
          continue;
        }
        double sum = form.add ? before : 0;
        for (int64_t p = 0; p < form.k; ++p) {
          sum += a.At(i, p, form.transpose_a) * b.At(p, j, form.transpose_b);
        }
        ASSERT_NEAR(got, sum, tolerance * std::max(1.0, std::abs(sum))) << i << ", " << j;
      }
    }
  }

  Case form;
  Operand<T> a, b;
  Operand<Out> c;
};

std::vector<Case> Forms(std::initializer_list<std::tuple<int64_t, int64_t, int64_t>> extents) {
  std::vector<Case> forms;
  for (const auto& [m, n, k] : extents) {
    for (int bits = 0; bits < 8; ++bits) {
      forms.push_back({m, n, k, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0});
    }
  }
  return forms;
}

std::string Describe(const Case& form) {
  return testing::PrintToString(
      std::tuple(form.m, form.n, form.k, form.transpose_a, form.transpose_b, form.add));
}

// k products of values below 1: every addition rounds a partial sum below √k by at most 2⁻²⁴ of it,
// and √k such errors add up without direction.
double FloatTolerance(int64_t k) { return 6e-8 * static_cast<double>(k + 1); }

// One rounding to 8 bits of a float sum.
constexpr double kBf16Tolerance = 1.01 / 256;

TEST(Gemm, Float32EqualsLoops) {
  for (const Case& form : Forms({{1, 1, 1},
                                 {1, 65, 300},
                                 {7, 33, 19},
                                 {8, 384, 96},
                                 {33, 1, 70},
                                 {300, 130, 65},
                                 {40, 30, 2100},
                                 {520, 90, 600}})) {
    SCOPED_TRACE(Describe(form));
    Problem<float, float>(form).ExpectRight(FloatTolerance(form.k));
  }
}

TEST(Gemm, Float64EqualsLoops) {
  for (const Case& form : Forms({{1, 1, 1}, {7, 33, 19}, {40, 5, 70}})) {
    SCOPED_TRACE(Describe(form));
    Problem<double, double>(form).ExpectRight(1e-14 * static_cast<double>(form.k + 1));
  }
}

TEST(Gemm, Bfloat16SumsInFloatAndRoundsOnce) {
  for (const Case& form : Forms({{1, 65, 300}, {7, 33, 19}, {70, 50, 65}})) {
    SCOPED_TRACE(Describe(form));
    Problem<bfloat16, float>(form).ExpectRight(FloatTolerance(form.k));
    Problem<bfloat16, bfloat16>(form).ExpectRight(kBf16Tolerance);
  }
}

TEST(Gemm, AnEmptySumIsZeroOrWhatWasThere) {
  for (const bool add : {false, true}) {
    std::vector<float> c = {1, 2, 3, 4};
    Gemm<float>(2, 2, 0, {nullptr, 1}, {nullptr, 1}, add, c.data(), 2);
    EXPECT_EQ(c, add ? (std::vector<float>{1, 2, 3, 4}) : std::vector<float>(4, 0.0f));
  }
}

// Shapes on both sides of every decision about tiles and splits of the sum.
TEST(Gemm, SameBitsWithAnyNumberOfThreads) {
  for (const Case& form : Forms({{1, 300, 200},
                                 {1, 3000, 700},
                                 {8, 2000, 400},
                                 {60, 700, 500},
                                 {130, 130, 130},
                                 {384, 384, 2048},
                                 {128, 128, 4096},
                                 {65, 384, 1100},
                                 {600, 200, 384}})) {
    SCOPED_TRACE(Describe(form));
    const Problem<float, float> problem(form);
    const std::vector<float> one = problem.Run(1);
    ASSERT_EQ(problem.Run(2), one);
    ASSERT_EQ(problem.Run(5), one);
  }
}

TEST(Gemm, SameBitsInsideAParallelRegion) {
  const Problem<float, float> problem({384, 96, 1500, true, false, false});
  const std::vector<float> alone = problem.Run(2);
  std::vector<std::vector<float>> inside(4);
  ParallelFor(4, 1, [&](int64_t begin, int64_t) {
    inside[static_cast<size_t>(begin)] = problem.Run(ThreadCount());
  });
  for (const std::vector<float>& result : inside) EXPECT_EQ(result, alone);
}

}  // namespace
}  // namespace tost::ops::cpu
