#include "trainers/element_values.h"

#include <bit>
#include <cstring>

#include "autograd/base/bfloat16.h"

namespace tost::train {
namespace {

static_assert(std::endian::native == std::endian::little, "tensor files are read as they lie");

float HalfToFloat(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = bits >> 10 & 0x1Fu;
  const uint32_t fraction = bits & 0x3FFu;
  if (exponent == 0) {  // zero, or fraction * 2^-24
    const float value = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -value : value;
  }
  const uint32_t wide = exponent == 31 ? 255u : exponent + 112u;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

template <class T, class Out, class Convert>
std::vector<Out> ConvertAll(std::span<const std::byte> bytes, const Convert& convert) {
  std::vector<Out> out(bytes.size() / sizeof(T));
  for (size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    out[i] = convert(value);
  }
  return out;
}

template <class T>
std::vector<float> ToFloats(std::span<const std::byte> bytes) {
  return ConvertAll<T, float>(bytes, [](T value) { return static_cast<float>(value); });
}

template <class T>
std::vector<int64_t> ToIntegers(std::span<const std::byte> bytes) {
  return ConvertAll<T, int64_t>(bytes, [](T value) { return static_cast<int64_t>(value); });
}

}  // namespace

std::optional<std::vector<float>> FloatsOf(absl::string_view dtype,
                                           std::span<const std::byte> bytes) {
  if (dtype == "F32") return ToFloats<float>(bytes);
  if (dtype == "F64") return ToFloats<double>(bytes);
  if (dtype == "BF16") return ToFloats<bfloat16>(bytes);
  if (dtype == "F16") return ConvertAll<uint16_t, float>(bytes, HalfToFloat);
  return std::nullopt;
}

std::optional<std::vector<int64_t>> IntegersOf(absl::string_view dtype,
                                               std::span<const std::byte> bytes) {
  if (dtype == "I64") return ToIntegers<int64_t>(bytes);
  if (dtype == "I32") return ToIntegers<int32_t>(bytes);
  if (dtype == "I16") return ToIntegers<int16_t>(bytes);
  if (dtype == "I8") return ToIntegers<int8_t>(bytes);
  if (dtype == "U32") return ToIntegers<uint32_t>(bytes);
  if (dtype == "U16") return ToIntegers<uint16_t>(bytes);
  if (dtype == "U8" || dtype == "BOOL") return ToIntegers<uint8_t>(bytes);
  return std::nullopt;
}

}  // namespace tost::train
