#include "ops/cpu/dropout.h"

#include <algorithm>

#include "autograd/base/parallel.h"
#include "ops/dropout.h"

namespace tost::ops::cpu {
namespace {

// Multipliers are drawn for this many columns at a time.
constexpr int64_t kSegment = 256;

// The multipliers of columns [4·block, 4·block + kSegment) of a row. The generator's ten rounds run
// over all blocks of the segment side by side, which the compiler turns into vector code.
void DrawSegment(const DropoutOptions& options, int64_t row, int64_t block,
                 float* __restrict multiplier) {
  constexpr int64_t kBlocks = kSegment / 4;
  uint32_t word[4][kBlocks];
  for (int64_t i = 0; i < kBlocks; ++i) {
    const Philox4 words = RandomWords(options.key, row, block + i);
    for (int w = 0; w < 4; ++w) word[w][i] = words.word[w];
  }
  const float kept = 1.0f / (1.0f - options.rate);
  for (int64_t i = 0; i < kBlocks; ++i) {
    for (int w = 0; w < 4; ++w) {
      multiplier[4 * i + w] = UniformOf(word[w][i]) >= options.rate ? kept : 0.0f;
    }
  }
}

// y[i] (+)= x[i] · multiplier[i] for a stretch of one row; x null: ones.
template <class T>
void Apply(int64_t count, const T* __restrict x, const float* __restrict multiplier, bool add,
           T* __restrict y) {
  using A = Accumulate<T>;
  if (x == nullptr) {
    for (int64_t i = 0; i < count; ++i) y[i] = static_cast<T>(multiplier[i]);
  } else if (add) {
    for (int64_t i = 0; i < count; ++i) {
      y[i] = static_cast<T>(static_cast<A>(y[i]) + static_cast<A>(x[i]) * A(multiplier[i]));
    }
  } else {
    for (int64_t i = 0; i < count; ++i) {
      y[i] = static_cast<T>(static_cast<A>(x[i]) * A(multiplier[i]));
    }
  }
}

}  // namespace

void Dropout(const DropoutOptions& options, const Tensor& x, Tensor& y) {
  VisitFloat(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const int64_t rows = y.shape()[0], columns = y.shape().After(0);
    const int64_t segments = (columns + kSegment - 1) / kSegment;
    const T* in = x.defined() ? x.data<T>() : nullptr;
    T* out = y.mutable_data<T>();
    ParallelFor(rows * segments, RowGrain(kSegment), [&](int64_t begin, int64_t end) {
      float multiplier[kSegment];
      for (int64_t task = begin; task < end; ++task) {
        const int64_t row = task / segments, first = task % segments * kSegment;
        const int64_t count = std::min(kSegment, columns - first);
        if (options.whole_rows) {
          const bool kept = Uniform(options.key, row, 0) >= options.rate;
          std::fill_n(multiplier, kSegment, kept ? 1.0f / (1.0f - options.rate) : 0.0f);
        } else {
          DrawSegment(options, row, first / 4, multiplier);
        }
        const int64_t place = row * columns + first;
        Apply(count, in == nullptr ? nullptr : in + place, multiplier, options.add, out + place);
      }
    });
  });
}

}  // namespace tost::ops::cpu
