#include "ops/binary_functors.h"
#include "ops/cpu/broadcast_map.h"
#include "ops/cpu/dispatch.h"
#include "ops/cpu/elementwise.h"

namespace tost::ops::cpu {

template <class F>
void Binary(const F& f, const Tensor& a, const Tensor& b, Tensor& y, bool add) {
  VisitFloat(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    VisitResult<T>(y.dtype(), [&](auto out) {
      BroadcastMap(
          y.shape(), [f](auto left, auto right) { return f.Forward(left, right); }, add,
          y.mutable_data<decltype(out)>(), Read<T>(a), Read<T>(b));
    });
  });
}

template <class F>
void BinaryBackward(const F& f, Side side, const Tensor& a, const Tensor& b, const Tensor& dy,
                    Tensor& out, bool add) {
  VisitFloat(dy.dtype(), [&](auto zero) {
    using T = decltype(zero);
    VisitResult<T>(out.dtype(), [&](auto result) {
      auto run = [&](auto fn) {
        BroadcastMap(dy.shape(), fn, add, out.mutable_data<decltype(result)>(), Read<T>(a),
                     Read<T>(b), Read<T>(dy));
      };
      if (side == Side::kLeft) {
        run([f](auto left, auto right, auto gradient) { return f.Left(left, right, gradient); });
      } else {
        run([f](auto left, auto right, auto gradient) { return f.Right(left, right, gradient); });
      }
    });
  });
}

template void Binary(const functor::Product&, const Tensor&, const Tensor&, Tensor&, bool);
template void Binary(const functor::Quotient&, const Tensor&, const Tensor&, Tensor&, bool);
template void Binary(const functor::PowerOf&, const Tensor&, const Tensor&, Tensor&, bool);
template void Binary(const functor::Larger&, const Tensor&, const Tensor&, Tensor&, bool);
template void Binary(const functor::Smaller&, const Tensor&, const Tensor&, Tensor&, bool);
template void Binary(const functor::Sum&, const Tensor&, const Tensor&, Tensor&, bool);
template void Binary(const functor::Difference&, const Tensor&, const Tensor&, Tensor&, bool);
template void Binary(const functor::IsLess&, const Tensor&, const Tensor&, Tensor&, bool);
template void Binary(const functor::IsLessEqual&, const Tensor&, const Tensor&, Tensor&, bool);
template void Binary(const functor::IsGreater&, const Tensor&, const Tensor&, Tensor&, bool);
template void Binary(const functor::IsGreaterEqual&, const Tensor&, const Tensor&, Tensor&, bool);
template void Binary(const functor::IsEqual&, const Tensor&, const Tensor&, Tensor&, bool);
template void Binary(const functor::KeepWhere&, const Tensor&, const Tensor&, Tensor&, bool);
template void Binary(const functor::KeepUnless&, const Tensor&, const Tensor&, Tensor&, bool);

template void BinaryBackward(const functor::Product&, Side, const Tensor&, const Tensor&,
                             const Tensor&, Tensor&, bool);
template void BinaryBackward(const functor::Quotient&, Side, const Tensor&, const Tensor&,
                             const Tensor&, Tensor&, bool);
template void BinaryBackward(const functor::PowerOf&, Side, const Tensor&, const Tensor&,
                             const Tensor&, Tensor&, bool);
template void BinaryBackward(const functor::Larger&, Side, const Tensor&, const Tensor&,
                             const Tensor&, Tensor&, bool);
template void BinaryBackward(const functor::Smaller&, Side, const Tensor&, const Tensor&,
                             const Tensor&, Tensor&, bool);

}  // namespace tost::ops::cpu
