// From a tensor's dtype to the element type of a kernel.
#ifndef TOST_OPS_CPU_DISPATCH_H_
#define TOST_OPS_CPU_DISPATCH_H_

#include <type_traits>

#include "autograd/base/dtype.h"

namespace tost::ops::cpu {

// Calls visit(Out{}) with the element type of a result of operands of type T: T itself or the type
// in which T accumulates. A bfloat16 activation may meet a float32 gradient cell, nothing else
// mixes.
template <class T, class Visit>
void VisitResult(DType dtype, Visit&& visit) {
  if (dtype == kDTypeOf<T>) return visit(T{});
  if constexpr (!std::is_same_v<T, Accumulate<T>>) {
    if (dtype == kDTypeOf<Accumulate<T>>) return visit(Accumulate<T>{});
  }
  TOST_CHECK(false) << "a result of " << Name(kDTypeOf<T>) << " operands cannot be " << Name(dtype);
}

}  // namespace tost::ops::cpu

#endif  // TOST_OPS_CPU_DISPATCH_H_
