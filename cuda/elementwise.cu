#include "cuda/dispatch.h"
#include "cuda/install.h"
#include "cuda/map_tensors.h"
#include "ops/elementwise_kernels.h"
#include "ops/unary_functors.h"

namespace tost::cuda {
namespace {

namespace functor = ops::functor;

template <class F>
void Unary(const F& f, const Tensor& x, Tensor& y) {
  VisitDeviceFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    MapTensors(ForwardOf<F>{f}, /*add=*/false, y.mutable_data<T>(), y.shape(), Read<T>(x));
  });
}

template <class F>
void UnaryBackward(const F& f, const Tensor& saved, const Tensor& dy, Tensor& dx, bool add) {
  VisitDeviceFloat(dy.dtype(), [&](auto zero) {
    using T = decltype(zero);
    VisitDeviceResult<T>(dx.dtype(), [&](auto out) {
      MapTensors(BackwardOf<F>{f}, add, dx.mutable_data<decltype(out)>(), dx.shape(),
                 Read<T>(saved), Read<T>(dy));
    });
  });
}

void Where(const Tensor& condition, const Tensor& a, const Tensor& b, Tensor& y) {
  VisitDeviceFloat(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    MapTensors(Choose{}, /*add=*/false, y.mutable_data<T>(), y.shape(), Read<T>(condition),
               Read<T>(a), Read<T>(b));
  });
}

void ScaledCopy(double scale, const Tensor& x, Tensor& y, bool add) {
  VisitDeviceFloat(x.dtype(), [&](auto from) {
    VisitDeviceFloat(y.dtype(), [&](auto to) {
      MapTensors(Scaled{scale}, add, y.mutable_data<decltype(to)>(), y.shape(),
                 Read<decltype(from)>(x));
    });
  });
}

template <class... F>
void InstallUnary() {
  (ops::unary_kernel<F>.Install(DeviceType::kCuda, &Unary<F>), ...);
  (ops::unary_backward_kernel<F>.Install(DeviceType::kCuda, &UnaryBackward<F>), ...);
}

}  // namespace

void InstallElementwiseKernels() {
  InstallUnary<
      functor::Affine, functor::DivideByScalar, functor::DivideScalarBy, functor::Exponential,
      functor::Logarithm, functor::SquareRoot, functor::ReciprocalRoot, functor::PowerOfScalar,
      functor::SquareOf, functor::AbsoluteValue, functor::Rectifier, functor::Logistic,
      functor::HyperbolicTangent, functor::GeluExact, functor::GeluByTanh, functor::Clamped>();
  ops::where_kernel.Install(DeviceType::kCuda, &Where);
  ops::scaled_copy_kernel.Install(DeviceType::kCuda, &ScaledCopy);
}

}  // namespace tost::cuda
