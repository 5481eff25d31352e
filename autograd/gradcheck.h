// Finite differences against the tape: is a gradient right?
//
//   GradcheckReport report = Gradcheck(
//       [](const std::vector<Tensor>& x) { return ops::Tanh(x[0] * x[1]); },
//       {RandomTensor({2, 3}, /*seed=*/1), RandomTensor({3}, /*seed=*/2)});
//   std::cout << report.Table();      // every entry, numeric beside analytic
//   if (!report.passed()) …
//
// The function under test is f(x) = Σ fn(x) · r with a fixed random r: with r = 1 errors that
// cancel in the sum would stay hidden. All inputs are float64.
#ifndef TOST_AUTOGRAD_GRADCHECK_H_
#define TOST_AUTOGRAD_GRADCHECK_H_

#include <functional>
#include <string>
#include <vector>

#include "autograd/tensor.h"

namespace tost {

// The function to check: from its inputs to one output of any shape.
using TensorFunction = std::function<Tensor(const std::vector<Tensor>&)>;

struct GradcheckOptions {
  // Step of the central difference: x ± step·max(1, |x|). The truncation error falls with step²,
  // the rounding error grows with 1/step; 1e-5 balances them for smooth functions of size 1 in
  // float64.
  double step = 1e-5;
  // Allowed difference, relative to the largest entry of the same input's gradient (at least 1).
  double tolerance = 1e-7;
};

struct GradcheckReport {
  struct Entry {
    int input;
    int64_t element;
    double numeric;
    double analytic;
  };
  std::vector<Entry> entries;
  double worst = 0;  // largest |numeric − analytic| / max(1, largest gradient of that input)
  double tolerance = 0;
  std::string failure;  // empty, or what failed other than a number (a wrong gradient shape)

  bool passed() const { return failure.empty() && worst <= tolerance; }
  // A line per entry: input, element, numeric, analytic, difference.
  std::string Table() const;
};

// Checks the gradient of `fn` with respect to every element of every input, and in addition that
//  · each single input wanting a gradient alone gives the same gradient as all together, and
//  · a second backward adds to the first (Grad::Write with add = true).
GradcheckReport Gradcheck(const TensorFunction& fn, const std::vector<Tensor>& inputs,
                          const GradcheckOptions& options = {});

// float64 values, uniform in [low, high), a pure function of the seed.
Tensor RandomTensor(Shape shape, uint64_t seed, double low = -1, double high = 1);

}  // namespace tost

#endif  // TOST_AUTOGRAD_GRADCHECK_H_
