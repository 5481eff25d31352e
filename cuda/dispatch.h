// From a tensor's dtype to the element type of a kernel on the device.
#ifndef TOST_CUDA_DISPATCH_H_
#define TOST_CUDA_DISPATCH_H_

#include <type_traits>

#include "autograd/base/dtype.h"
#include "cuda/gpu.h"

namespace tost::cuda {

// Calls visit(T{}) with the type of sums and master values named by `dtype`. float64 exists for
// gradient checks and costs a third of the compile time, so only the emulated device has it.
template <class Visit>
void VisitDeviceSum(DType dtype, Visit&& visit) {
  if (dtype == DType::kFloat32) return visit(float{});
  if constexpr (gpu::kEmulated) {
    if (dtype == DType::kFloat64) return visit(double{});
  }
  TOST_CHECK(false) << "CUDA kernels sum in float32, got " << Name(dtype);
}

// Calls visit(T{}) with the floating type named by `dtype`.
template <class Visit>
void VisitDeviceFloat(DType dtype, Visit&& visit) {
  if (dtype == DType::kBFloat16) return visit(bfloat16{});
  VisitDeviceSum(dtype, visit);
}

// Calls visit(Out{}) with the element type of a result of operands of type T: T itself, or float
// where T is bfloat16 (a gradient cell).
template <class T, class Visit>
void VisitDeviceResult(DType dtype, Visit&& visit) {
  if (dtype == kDTypeOf<T>) return visit(T{});
  if constexpr (!std::is_same_v<T, Accumulate<T>>) {
    if (dtype == kDTypeOf<Accumulate<T>>) return visit(Accumulate<T>{});
  }
  TOST_CHECK(false) << "a result of " << Name(kDTypeOf<T>) << " operands cannot be " << Name(dtype);
}

}  // namespace tost::cuda

#endif  // TOST_CUDA_DISPATCH_H_
