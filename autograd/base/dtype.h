// Element types of a Tensor.
#ifndef TOST_AUTOGRAD_BASE_DTYPE_H_
#define TOST_AUTOGRAD_BASE_DTYPE_H_

#include <cstddef>
#include <cstdint>
#include <ostream>

#include "autograd/base/bfloat16.h"
#include "autograd/base/errors.h"

namespace tost {

enum class DType : uint8_t {
  kFloat32,   // parameters, statistics, gradients
  kBFloat16,  // activations and GEMM operands under compute_dtype=bfloat16
  kFloat64,   // gradient checks
  kInt32,     // token ids, targets, indices
  kUint16,    // token ids as they lie in a file
};

constexpr size_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return 8;
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kBFloat16:
    case DType::kUint16:
      return 2;
  }
  return 0;
}

constexpr const char* Name(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float32";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kFloat64:
      return "float64";
    case DType::kInt32:
      return "int32";
    case DType::kUint16:
      return "uint16";
  }
  return "?";
}

inline std::ostream& operator<<(std::ostream& out, DType dtype) { return out << Name(dtype); }

template <class T>
inline constexpr DType kDTypeOf = [] {
  static_assert(sizeof(T) == 0, "not the element type of a tensor");
  return DType::kFloat32;
}();
template <>
inline constexpr DType kDTypeOf<float> = DType::kFloat32;
template <>
inline constexpr DType kDTypeOf<bfloat16> = DType::kBFloat16;
template <>
inline constexpr DType kDTypeOf<double> = DType::kFloat64;
template <>
inline constexpr DType kDTypeOf<int32_t> = DType::kInt32;
template <>
inline constexpr DType kDTypeOf<uint16_t> = DType::kUint16;

// The type in which sums, norms and softmaxes over elements of T are formed, and the type of the
// vector parameters (norm weights, biases, temperatures) that meet activations of type T.
template <class T>
struct AccumulateType {
  using Type = float;
};
template <>
struct AccumulateType<double> {
  using Type = double;
};
template <class T>
using Accumulate = typename AccumulateType<T>::Type;

constexpr DType AccumulateDType(DType dtype) {
  return dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
}

// Calls visit(T{}) with the element type named by `dtype`, one of the three floating types:
//   VisitFloat(x.dtype(), [&](auto zero) { using T = decltype(zero); Run<T>(x, y); });
template <class Visit>
decltype(auto) VisitFloat(DType dtype, Visit&& visit) {
  switch (dtype) {
    case DType::kFloat32:
      return visit(float{});
    case DType::kBFloat16:
      return visit(bfloat16{});
    case DType::kFloat64:
      return visit(double{});
    default:
      break;
  }
  TOST_CHECK(false) << "expected a floating type, got " << Name(dtype);
  __builtin_unreachable();
}

}  // namespace tost

#endif  // TOST_AUTOGRAD_BASE_DTYPE_H_
