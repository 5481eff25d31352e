#include "cuda/dispatch.h"
#include "cuda/install.h"
#include "cuda/map_tensors.h"
#include "ops/binary_functors.h"
#include "ops/elementwise_kernels.h"

namespace tost::cuda {
namespace {

namespace functor = ops::functor;

template <class F>
void Binary(const F& f, const Tensor& a, const Tensor& b, Tensor& y, bool add) {
  VisitDeviceFloat(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    VisitDeviceResult<T>(y.dtype(), [&](auto out) {
      MapTensors(ForwardOf<F>{f}, add, y.mutable_data<decltype(out)>(), y.shape(), Read<T>(a),
                 Read<T>(b));
    });
  });
}

template <class F>
void BinaryBackward(const F& f, ops::Side side, const Tensor& a, const Tensor& b, const Tensor& dy,
                    Tensor& out, bool add) {
  VisitDeviceFloat(dy.dtype(), [&](auto zero) {
    using T = decltype(zero);
    VisitDeviceResult<T>(out.dtype(), [&](auto result) {
      const auto run = [&](const auto& fn) {
        MapTensors(fn, add, out.mutable_data<decltype(result)>(), dy.shape(), Read<T>(a),
                   Read<T>(b), Read<T>(dy));
      };
      side == ops::Side::kLeft ? run(LeftOf<F>{f}) : run(RightOf<F>{f});
    });
  });
}

template <class... F>
void InstallForward() {
  (ops::binary_kernel<F>.Install(DeviceType::kCuda, &Binary<F>), ...);
}

template <class... F>
void InstallBackward() {
  (ops::binary_backward_kernel<F>.Install(DeviceType::kCuda, &BinaryBackward<F>), ...);
}

}  // namespace

void InstallBinaryKernels() {
  InstallForward<functor::Product, functor::Quotient, functor::PowerOf, functor::Larger,
                 functor::Smaller, functor::Sum, functor::Difference, functor::IsLess,
                 functor::IsLessEqual, functor::IsGreater, functor::IsGreaterEqual,
                 functor::IsEqual, functor::KeepWhere, functor::KeepUnless>();
  InstallBackward<functor::Product, functor::Quotient, functor::PowerOf, functor::Larger,
                  functor::Smaller>();
}

}  // namespace tost::cuda
