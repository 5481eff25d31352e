#include "autograd/base/bfloat16.h"

#include <bit>
#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace tost {
namespace {

float FromBits(uint32_t bits) { return std::bit_cast<float>(bits); }

// Round to nearest even by comparing with the two neighbours in double: slow, obviously right.
uint16_t NearestEven(float value) {
  const uint32_t wide = std::bit_cast<uint32_t>(value);
  const auto toward_zero = static_cast<uint16_t>(wide >> 16);
  const auto away = static_cast<uint16_t>(toward_zero + 1);
  const double below = static_cast<double>(FromBits(uint32_t{toward_zero} << 16));
  double above = static_cast<double>(FromBits(uint32_t{away} << 16));
  // Past the largest finite value the next step up would have been 2^128.
  if (std::isinf(above)) above = std::copysign(std::ldexp(1.0, 128), below);
  const double down = std::abs(static_cast<double>(value) - below);
  const double up = std::abs(above - static_cast<double>(value));
  if (down != up) return down < up ? toward_zero : away;
  return toward_zero % 2 == 0 ? toward_zero : away;
}

TEST(BFloat16, TiesGoToTheEvenNeighbour) {
  EXPECT_EQ(bfloat16(FromBits(0x3f808000)).bits, 0x3f80);  // halfway above 1: down to even
  EXPECT_EQ(bfloat16(FromBits(0x3f818000)).bits, 0x3f82);  // halfway above the next: up to even
  EXPECT_EQ(bfloat16(FromBits(0x3f808001)).bits, 0x3f81);  // just past halfway
  EXPECT_EQ(bfloat16(FromBits(0x3f817fff)).bits, 0x3f81);  // just short of halfway
}

TEST(BFloat16, SpecialValues) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(bfloat16(kInfinity).bits, 0x7f80);
  EXPECT_EQ(bfloat16(-kInfinity).bits, 0xff80);
  EXPECT_EQ(bfloat16(-0.0f).bits, 0x8000);
  EXPECT_EQ(bfloat16(std::numeric_limits<float>::max()).bits, 0x7f80);  // rounds up to infinity
  EXPECT_EQ(bfloat16(std::numeric_limits<float>::denorm_min()).bits, 0);
}

TEST(BFloat16, NanStaysNanWhateverItsPayload) {
  for (uint32_t bits : {0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0xff800001u, 0xffffffffu}) {
    EXPECT_TRUE(std::isnan(static_cast<float>(bfloat16(FromBits(bits))))) << std::hex << bits;
  }
}

TEST(BFloat16, EveryPatternSurvivesTheWayThroughFloat) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    bfloat16 value;
    value.bits = static_cast<uint16_t>(bits);
    const float wide = value;
    if (std::isnan(wide)) continue;
    ASSERT_EQ(bfloat16(wide).bits, bits) << std::hex << bits;
  }
}

TEST(BFloat16, RoundsLikeTheReferenceOverAllUpperHalves) {
  for (uint32_t upper = 0; upper <= 0xffff; ++upper) {
    for (uint32_t lower : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu, 0x5a5au}) {
      const float value = FromBits((upper << 16) | lower);
      if (!std::isfinite(value)) continue;
      ASSERT_EQ(bfloat16(value).bits, NearestEven(value)) << std::hex << upper << " " << lower;
    }
  }
}

TEST(BFloat16, EpsilonIsTheStepAboveOne) {
  EXPECT_EQ(static_cast<float>(bfloat16(1 + kBFloat16Epsilon)), 1 + kBFloat16Epsilon);
  EXPECT_EQ(static_cast<float>(bfloat16(1 + kBFloat16Epsilon / 2)), 1.0f);
}

}  // namespace
}  // namespace tost
