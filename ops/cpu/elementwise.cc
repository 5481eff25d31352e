#include "ops/cpu/elementwise.h"

#include "ops/cpu/broadcast_map.h"
#include "ops/cpu/dispatch.h"
#include "ops/unary_functors.h"

namespace tost::ops::cpu {

template <class F>
void Unary(const F& f, const Tensor& x, Tensor& y) {
  VisitFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    BroadcastMap(
        y.shape(), [f](auto value) { return f.Forward(value); }, /*add=*/false, y.mutable_data<T>(),
        Read<T>(x));
  });
}

template <class F>
void UnaryBackward(const F& f, const Tensor& saved, const Tensor& dy, Tensor& dx, bool add) {
  VisitFloat(dy.dtype(), [&](auto zero) {
    using T = decltype(zero);
    VisitResult<T>(dx.dtype(), [&](auto out) {
      BroadcastMap(
          dx.shape(), [f](auto value, auto gradient) { return f.Backward(value, gradient); }, add,
          dx.mutable_data<decltype(out)>(), Read<T>(saved), Read<T>(dy));
    });
  });
}

void Where(const Tensor& condition, const Tensor& a, const Tensor& b, Tensor& y) {
  VisitFloat(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    BroadcastMap(
        y.shape(), [](auto mask, auto yes, auto no) { return mask != 0 ? yes : no; },
        /*add=*/false, y.mutable_data<T>(), Read<T>(condition), Read<T>(a), Read<T>(b));
  });
}

void ScaledCopy(double scale, const Tensor& x, Tensor& y, bool add) {
  VisitFloat(x.dtype(), [&](auto from) {
    VisitFloat(y.dtype(), [&](auto to) {
      BroadcastMap(
          y.shape(), [scale](auto value) { return static_cast<decltype(value)>(scale) * value; },
          add, y.mutable_data<decltype(to)>(), Read<decltype(from)>(x));
    });
  });
}

template void Unary(const functor::Affine&, const Tensor&, Tensor&);
template void Unary(const functor::DivideByScalar&, const Tensor&, Tensor&);
template void Unary(const functor::DivideScalarBy&, const Tensor&, Tensor&);
template void Unary(const functor::Exponential&, const Tensor&, Tensor&);
template void Unary(const functor::Logarithm&, const Tensor&, Tensor&);
template void Unary(const functor::SquareRoot&, const Tensor&, Tensor&);
template void Unary(const functor::ReciprocalRoot&, const Tensor&, Tensor&);
template void Unary(const functor::PowerOfScalar&, const Tensor&, Tensor&);
template void Unary(const functor::SquareOf&, const Tensor&, Tensor&);
template void Unary(const functor::AbsoluteValue&, const Tensor&, Tensor&);
template void Unary(const functor::Rectifier&, const Tensor&, Tensor&);
template void Unary(const functor::Logistic&, const Tensor&, Tensor&);
template void Unary(const functor::HyperbolicTangent&, const Tensor&, Tensor&);
template void Unary(const functor::GeluExact&, const Tensor&, Tensor&);
template void Unary(const functor::GeluByTanh&, const Tensor&, Tensor&);
template void Unary(const functor::Clamped&, const Tensor&, Tensor&);

template void UnaryBackward(const functor::Affine&, const Tensor&, const Tensor&, Tensor&, bool);
template void UnaryBackward(const functor::DivideByScalar&, const Tensor&, const Tensor&, Tensor&,
                            bool);
template void UnaryBackward(const functor::DivideScalarBy&, const Tensor&, const Tensor&, Tensor&,
                            bool);
template void UnaryBackward(const functor::Exponential&, const Tensor&, const Tensor&, Tensor&,
                            bool);
template void UnaryBackward(const functor::Logarithm&, const Tensor&, const Tensor&, Tensor&, bool);
template void UnaryBackward(const functor::SquareRoot&, const Tensor&, const Tensor&, Tensor&,
                            bool);
template void UnaryBackward(const functor::ReciprocalRoot&, const Tensor&, const Tensor&, Tensor&,
                            bool);
template void UnaryBackward(const functor::PowerOfScalar&, const Tensor&, const Tensor&, Tensor&,
                            bool);
template void UnaryBackward(const functor::SquareOf&, const Tensor&, const Tensor&, Tensor&, bool);
template void UnaryBackward(const functor::AbsoluteValue&, const Tensor&, const Tensor&, Tensor&,
                            bool);
template void UnaryBackward(const functor::Rectifier&, const Tensor&, const Tensor&, Tensor&, bool);
template void UnaryBackward(const functor::Logistic&, const Tensor&, const Tensor&, Tensor&, bool);
template void UnaryBackward(const functor::HyperbolicTangent&, const Tensor&, const Tensor&,
                            Tensor&, bool);
template void UnaryBackward(const functor::GeluExact&, const Tensor&, const Tensor&, Tensor&, bool);
template void UnaryBackward(const functor::GeluByTanh&, const Tensor&, const Tensor&, Tensor&,
                            bool);
template void UnaryBackward(const functor::Clamped&, const Tensor&, const Tensor&, Tensor&, bool);

}  // namespace tost::ops::cpu
