// Cases of both TSSA operators on the device.
#ifndef TOST_TESTS_CUDA_TSSA_CASES_H_
#define TOST_TESTS_CUDA_TSSA_CASES_H_

#include <string>
#include <vector>

#include "autograd/tensor.h"

namespace tost {

struct TssaCase {
  int64_t batch, tokens, heads, head_dim;

  int64_t width() const { return heads * head_dim; }
  Shape Tokens() const { return {batch, tokens, width()}; }
  std::string Name() const { return Shape{batch, tokens, heads, head_dim}.ToString(); }
};

// One token, one head, odd widths, lengths around chunks of 32 tokens and rows of 8, more chunks
// than the scan has warps, heads wider than a row of threads, more packs than one.
std::vector<TssaCase> TssaCases();
// Small enough for finite differences of every entry.
std::vector<TssaCase> TssaGradientCases();

// Relative to the largest number of a result. Sums of up to some hundred numbers of its size are
// taken in another order than on the CPU: 1e-5 is 160 roundings of 6e-8 and the worst observed is a
// tenth of it; bfloat16 results are rounded once, to 2⁻⁸, and may fall on either side.
double TssaTolerance(DType dtype);

// Multipliers 0 or 1/0.75, float64.
Tensor KeepMask(Shape shape);

// Random tokens, float64, of which some tokens at the start and a channel are 0, and a token after
// those so small that its energy stays below the clamps.
Tensor WithZeros(const TssaCase& c, int64_t zero_tokens);

// Every number of a is twice that of b. Doubling is exact.
void ExpectTwice(const Tensor& a, const Tensor& b);

}  // namespace tost

#endif  // TOST_TESTS_CUDA_TSSA_CASES_H_
