// Where each device's elementwise loops are found: one slot per functor of
// ops/unary_functors.h and ops/binary_functors.h.
#ifndef TOST_OPS_ELEMENTWISE_KERNELS_H_
#define TOST_OPS_ELEMENTWISE_KERNELS_H_

#include "ops/cpu/elementwise.h"
#include "ops/kernel.h"

namespace tost::ops {

// What each does is said in ops/cpu/elementwise.h. Another device's: unary_kernel<F>.Install(…).
template <class F>
using UnaryFn = void(const F& f, const Tensor& x, Tensor& y);
template <class F>
inline constinit Kernel<UnaryFn<F>> unary_kernel{F::kName, &cpu::Unary<F>};

template <class F>
using UnaryBackwardFn = void(const F& f, const Tensor& saved, const Tensor& dy, Tensor& dx,
                             bool add);
template <class F>
inline constinit Kernel<UnaryBackwardFn<F>> unary_backward_kernel{F::kName, &cpu::UnaryBackward<F>};

template <class F>
using BinaryFn = void(const F& f, const Tensor& a, const Tensor& b, Tensor& y, bool add);
template <class F>
inline constinit Kernel<BinaryFn<F>> binary_kernel{F::kName, &cpu::Binary<F>};

using cpu::Side;
template <class F>
using BinaryBackwardFn = void(const F& f, Side side, const Tensor& a, const Tensor& b,
                              const Tensor& dy, Tensor& out, bool add);
template <class F>
inline constinit Kernel<BinaryBackwardFn<F>> binary_backward_kernel{F::kName,
                                                                    &cpu::BinaryBackward<F>};

using WhereFn = void(const Tensor& condition, const Tensor& a, const Tensor& b, Tensor& y);
inline constinit Kernel<WhereFn> where_kernel{"where", &cpu::Where};

using ScaledCopyFn = void(double scale, const Tensor& x, Tensor& y, bool add);
inline constinit Kernel<ScaledCopyFn> scaled_copy_kernel{"scaled_copy", &cpu::ScaledCopy};

}  // namespace tost::ops

#endif  // TOST_OPS_ELEMENTWISE_KERNELS_H_
