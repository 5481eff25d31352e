// The one 2-byte brain float of the code base: the upper half of an IEEE float32.
// Conversion rounds to nearest even, bit for bit like CUDA's __nv_bfloat16.
#ifndef TOST_AUTOGRAD_BASE_BFLOAT16_H_
#define TOST_AUTOGRAD_BASE_BFLOAT16_H_

#include <cstdint>
#include <type_traits>

#ifdef __CUDACC__
#define TOST_HD __host__ __device__
#else
#define TOST_HD
#endif

namespace tost {

struct bfloat16 {
  uint16_t bits;

  bfloat16() = default;
  TOST_HD bfloat16(float value) : bits(Round(value)) {}  // NOLINT: converts like a built-in type
  template <class Number, class = std::enable_if_t<std::is_arithmetic_v<Number>>>
  TOST_HD explicit bfloat16(Number value) : bfloat16(static_cast<float>(value)) {}
  TOST_HD operator float() const {  // NOLINT
    uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float value;
    __builtin_memcpy(&value, &wide, sizeof(value));
    return value;
  }

 private:
  TOST_HD static uint16_t Round(float value) {
    uint32_t wide;
    __builtin_memcpy(&wide, &value, sizeof(wide));
    // Adding 0x7fff plus the lowest kept bit carries exactly when the dropped half rounds up.
    const uint32_t rounded = wide + 0x7fffu + ((wide >> 16) & 1u);
    const bool is_nan = (wide & 0x7fffffffu) > 0x7f800000u;
    return static_cast<uint16_t>(is_nan ? 0x7fffu : rounded >> 16);
  }
};

static_assert(sizeof(bfloat16) == 2);

// Distance from 1 to the next bfloat16.
inline constexpr float kBFloat16Epsilon = 1.0f / 128;

}  // namespace tost

#endif  // TOST_AUTOGRAD_BASE_BFLOAT16_H_
