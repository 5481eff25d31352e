// From the index of an element to its place in memory, when axes broadcast or are permuted.
#ifndef TOST_CUDA_AXIS_WALK_CUH_
#define TOST_CUDA_AXIS_WALK_CUH_

#include "cuda/gpu.h"

namespace tost::cuda {

inline constexpr int kMaxAxes = 6;  // of a tensor

// A divisor d >= 1 that is known before the launch: for 0 <= n < 2^63, n / d as one multiplication.
// A GPU has no instruction for integer division and spends some hundred of others on 64 bits of it.
//
// With 2^l >= d the multiplier m = ⌈2^(63+l) / d⌉ lies in [2^(63+l) / d, (2^(63+l) + 2^l) / d], for
// which ⌊n m / 2^(63+l)⌋ = ⌊n / d⌋ (Granlund and Montgomery, "Division by invariant integers using
// multiplication", 1994, theorem 4.2); m < 2^64, and so is 2 n.
class Divisor {
 public:
  Divisor() = default;
  explicit Divisor(int64_t value) : value_(value) {
    while ((uint64_t{1} << shift_) < static_cast<uint64_t>(value)) ++shift_;
    const Wide numerator = static_cast<Wide>(1) << (63 + shift_);
    const Wide divisor = static_cast<Wide>(value);
    multiplier_ = static_cast<uint64_t>((numerator + divisor - 1) / divisor);
  }

  TOST_HD int64_t value() const { return value_; }
  TOST_HD int64_t Quotient(int64_t n) const {
    const Wide product = static_cast<Wide>(static_cast<uint64_t>(n) << 1) * multiplier_;
    return static_cast<int64_t>(static_cast<uint64_t>(product >> 64) >> shift_);
  }
  TOST_HD int64_t Remainder(int64_t n) const { return n - Quotient(n) * value_; }

 private:
  __extension__ typedef unsigned __int128 Wide;

  uint64_t multiplier_ = uint64_t{1} << 63;
  int64_t value_ = 1;
  int shift_ = 0;
};

// Axes, innermost first, and how far each of n operands moves along them, in elements.
template <int n>
struct AxisWalk {
  int rank = 0;
  Divisor extents[kMaxAxes];
  int64_t strides[n][kMaxAxes] = {};

  void AddOutermost(int64_t extent, const int64_t (&stride)[n]) {
    extents[rank] = Divisor(extent);
    for (int k = 0; k < n; ++k) strides[k][rank] = stride[k];
    ++rank;
  }

  // offset[k]: of the element `index` in operand k.
  TOST_HD void Offsets(int64_t index, int64_t (&offset)[n]) const {
    for (int k = 0; k < n; ++k) offset[k] = 0;
#pragma unroll
    for (int axis = 0; axis < kMaxAxes; ++axis) {
      if (axis >= rank) break;
      const bool outermost = axis + 1 == rank;
      const int64_t outer = outermost ? 0 : extents[axis].Quotient(index);
      const int64_t here = index - outer * extents[axis].value();
#pragma unroll
      for (int k = 0; k < n; ++k) offset[k] += here * strides[k][axis];
      index = outer;
    }
  }
  TOST_HD int64_t Offset(int64_t index) const {
    static_assert(n == 1);
    int64_t offset[1];
    Offsets(index, offset);
    return offset[0];
  }
};

}  // namespace tost::cuda

#endif  // TOST_CUDA_AXIS_WALK_CUH_
