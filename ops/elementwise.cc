#include "ops/elementwise.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "autograd/tape.h"
#include "ops/binary_functors.h"
#include "ops/elementwise_kernels.h"
#include "ops/reduce.h"
#include "ops/unary_functors.h"

namespace tost {
namespace ops {
namespace {

Tensor NewResult(const char* op, const Tensor& a, const Tensor& b) {
  TOST_CHECK(a.dtype() == b.dtype())
      << op << ": dtypes differ: " << a.dtype() << " and " << b.dtype();
  return Tensor::Empty(TOST_CHECK_VALUE(ElementwiseShape(op, a.shape(), b.shape())), a.dtype(),
                       a.device());
}

// What a backward rule keeps of `x`: the value if it is read, nothing otherwise.
Saved KeepIf(bool read, const Tensor& x) { return Saved(read ? x.Detached() : Tensor()); }

// A value that was kept, or a stand-in that the functor does not read.
const Tensor& ValueOr(const Saved& saved, const Tensor& unread) {
  const Tensor& value = saved.value();
  return value.defined() ? value : unread;
}

template <class F>
Tensor UnaryOp(const F& f, const Tensor& x) {
  Tensor y = Tensor::Empty(x.shape(), x.dtype(), x.device());
  unary_kernel<F>.On(x.device().type)(f, x, y);

  Tape* tape = Tape::Current();
  if (tape == nullptr) return y;
  using functor::Reads;
  return tape->Record(
      F::kName, {x.grad()}, y,
      [f, x = SavedShape(x),
       saved = KeepIf(F::kReads != Reads::kNothing, F::kReads == Reads::kInput ? x : y)](
          const Tensor& dy) {
        x.Gradient([&](Tensor& dx, bool add) {
          unary_backward_kernel<F>.On(dy.device().type)(f, ValueOr(saved, dy), dy, dx, add);
        });
      });
}

// Calls fill(out, add) for the gradient of an operand, first for a tensor of the result's shape and
// then summed to the operand's where the two differ.
template <class Fill>
void BroadcastGradient(const Saved& operand, const Tensor& dy, Fill&& fill) {
  operand.Gradient([&](Tensor& out, bool add) {
    if (out.shape() == dy.shape()) return fill(out, add);
    Tensor wide = Tensor::Empty(dy.shape(), AccumulateDType(dy.dtype()), dy.device());
    fill(wide, false);
    ReduceTo(wide, out, add);
  });
}

template <class F>
Tensor BinaryOp(const F& f, const char* op, const Tensor& a, const Tensor& b) {
  Tensor y = NewResult(op, a, b);
  binary_kernel<F>.On(y.device().type)(f, a, b, y, /*add=*/false);

  Tape* tape = Tape::Current();
  if (tape == nullptr) return y;
  const bool left = a.grad() != nullptr, right = b.grad() != nullptr;
  return tape->Record(
      F::kName, {a.grad(), b.grad()}, y,
      [f, a = SavedShape(a), b = SavedShape(b),
       a_value = KeepIf((left && F::kLeftReadsA) || (right && F::kRightReadsA), a),
       b_value =
           KeepIf((left && F::kLeftReadsB) || (right && F::kRightReadsB), b)](const Tensor& dy) {
        const auto backward = binary_backward_kernel<F>.On(dy.device().type);
        const Tensor &av = ValueOr(a_value, dy), &bv = ValueOr(b_value, dy);
        BroadcastGradient(
            a, dy, [&](Tensor& out, bool add) { backward(f, Side::kLeft, av, bv, dy, out, add); });
        BroadcastGradient(
            b, dy, [&](Tensor& out, bool add) { backward(f, Side::kRight, av, bv, dy, out, add); });
      });
}

// A binary op whose result is a constant.
template <class F>
Tensor Comparison(const F& f, const char* op, const Tensor& a, const Tensor& b) {
  Tensor y = NewResult(op, a, b);
  binary_kernel<F>.On(y.device().type)(f, a, b, y, /*add=*/false);
  return y;
}

// The gradient of an operand that enters the result with a factor of ±1.
void PassTerm(const Saved& operand, double sign, const Tensor& dy) {
  auto fill = [&](Tensor& out, bool add) {
    if (out.shape() != dy.shape()) return ReduceTo(dy, out, add, sign);
    scaled_copy_kernel.On(dy.device().type)(sign, dy, out, add);
  };
  if (sign == 1 && operand.shape() == dy.shape()) {
    operand.PassGradient(dy, fill);
  } else {
    operand.Gradient(fill);
  }
}

template <class F>
Tensor SumOp(const F& f, const char* op, double sign, const Tensor& a, const Tensor& b) {
  Tensor y = NewResult(op, a, b);
  binary_kernel<F>.On(y.device().type)(f, a, b, y, /*add=*/false);

  Tape* tape = Tape::Current();
  if (tape == nullptr) return y;
  return tape->Record(F::kName, {a.grad(), b.grad()}, y,
                      [sign, a = SavedShape(a), b = SavedShape(b)](const Tensor& dy) {
                        PassTerm(b, sign, dy);
                        PassTerm(a, 1, dy);
                      });
}

}  // namespace

absl::StatusOr<Shape> ElementwiseShape(absl::string_view op, const Shape& a, const Shape& b) {
  absl::StatusOr<Shape> shape = BroadcastShape(a, b);
  if (shape.ok()) return shape;
  return absl::InvalidArgumentError(absl::StrCat(op, ": ", shape.status().message()));
}

Tensor Exp(const Tensor& x) { return UnaryOp(functor::Exponential{}, x); }
Tensor Log(const Tensor& x) { return UnaryOp(functor::Logarithm{}, x); }
Tensor Sqrt(const Tensor& x) { return UnaryOp(functor::SquareRoot{}, x); }
Tensor Rsqrt(const Tensor& x) { return UnaryOp(functor::ReciprocalRoot{}, x); }
Tensor Abs(const Tensor& x) { return UnaryOp(functor::AbsoluteValue{}, x); }
Tensor Square(const Tensor& x) { return UnaryOp(functor::SquareOf{}, x); }
Tensor Relu(const Tensor& x) { return UnaryOp(functor::Rectifier{}, x); }
Tensor Sigmoid(const Tensor& x) { return UnaryOp(functor::Logistic{}, x); }
Tensor Tanh(const Tensor& x) { return UnaryOp(functor::HyperbolicTangent{}, x); }
Tensor Gelu(const Tensor& x) { return UnaryOp(functor::GeluExact{}, x); }
Tensor GeluTanh(const Tensor& x) { return UnaryOp(functor::GeluByTanh{}, x); }

Tensor Pow(const Tensor& x, double exponent) {
  // A multiplication is exact where the general power is slow and may be off by a bit.
  return exponent == 2 ? Square(x) : UnaryOp(functor::PowerOfScalar{exponent}, x);
}

Tensor Clamp(const Tensor& x, double low, double high) {
  TOST_CHECK(low <= high) << "Clamp: the bounds [" << low << ", " << high << "] are empty";
  return UnaryOp(functor::Clamped{low, high}, x);
}

Tensor Pow(const Tensor& x, const Tensor& y) { return BinaryOp(functor::PowerOf{}, "Pow", x, y); }
Tensor Maximum(const Tensor& a, const Tensor& b) {
  return BinaryOp(functor::Larger{}, "Maximum", a, b);
}
Tensor Minimum(const Tensor& a, const Tensor& b) {
  return BinaryOp(functor::Smaller{}, "Minimum", a, b);
}

Tensor Less(const Tensor& a, const Tensor& b) {
  return Comparison(functor::IsLess{}, "Less", a, b);
}
Tensor LessEqual(const Tensor& a, const Tensor& b) {
  return Comparison(functor::IsLessEqual{}, "LessEqual", a, b);
}
Tensor Greater(const Tensor& a, const Tensor& b) {
  return Comparison(functor::IsGreater{}, "Greater", a, b);
}
Tensor GreaterEqual(const Tensor& a, const Tensor& b) {
  return Comparison(functor::IsGreaterEqual{}, "GreaterEqual", a, b);
}
Tensor Equal(const Tensor& a, const Tensor& b) {
  return Comparison(functor::IsEqual{}, "Equal", a, b);
}

Tensor Where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  TOST_CHECK(condition.dtype() == a.dtype() && a.dtype() == b.dtype())
      << "Where: dtypes differ: " << condition.dtype() << ", " << a.dtype() << " and " << b.dtype();
  const Shape values = TOST_CHECK_VALUE(ElementwiseShape("Where", a.shape(), b.shape()));
  Tensor y = Tensor::Empty(TOST_CHECK_VALUE(ElementwiseShape("Where", condition.shape(), values)),
                           a.dtype(), a.device());
  where_kernel.On(y.device().type)(condition, a, b, y);

  Tape* tape = Tape::Current();
  if (tape == nullptr) return y;
  return tape->Record(
      "where", {a.grad(), b.grad()}, y,
      [mask = Saved(condition.Detached()), a = SavedShape(a), b = SavedShape(b)](const Tensor& dy) {
        const DeviceType device = dy.device().type;
        BroadcastGradient(a, dy, [&](Tensor& out, bool add) {
          binary_kernel<functor::KeepWhere>.On(device)({}, mask, dy, out, add);
        });
        BroadcastGradient(b, dy, [&](Tensor& out, bool add) {
          binary_kernel<functor::KeepUnless>.On(device)({}, mask, dy, out, add);
        });
      });
}

Tensor Cast(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  Tensor y = Tensor::Empty(x.shape(), dtype, x.device());
  scaled_copy_kernel.On(x.device().type)(1, x, y, /*add=*/false);

  Tape* tape = Tape::Current();
  if (tape == nullptr) return y;
  return tape->Record("cast", {x.grad()}, y, [x = SavedShape(x)](const Tensor& dy) {
    x.Gradient(
        [&](Tensor& dx, bool add) { scaled_copy_kernel.On(dy.device().type)(1, dy, dx, add); });
  });
}

}  // namespace ops

Tensor operator+(const Tensor& a, const Tensor& b) {
  return ops::SumOp(ops::functor::Sum{}, "Add", 1, a, b);
}
Tensor operator-(const Tensor& a, const Tensor& b) {
  return ops::SumOp(ops::functor::Difference{}, "Subtract", -1, a, b);
}
Tensor operator*(const Tensor& a, const Tensor& b) {
  return ops::BinaryOp(ops::functor::Product{}, "Multiply", a, b);
}
Tensor operator/(const Tensor& a, const Tensor& b) {
  return ops::BinaryOp(ops::functor::Quotient{}, "Divide", a, b);
}

Tensor operator+(const Tensor& x, double scalar) {
  return ops::UnaryOp(ops::functor::Affine{1, scalar}, x);
}
Tensor operator-(const Tensor& x, double scalar) { return x + -scalar; }
Tensor operator*(const Tensor& x, double scalar) {
  return ops::UnaryOp(ops::functor::Affine{scalar, 0}, x);
}
Tensor operator/(const Tensor& x, double scalar) {
  return ops::UnaryOp(ops::functor::DivideByScalar{scalar}, x);
}
Tensor operator+(double scalar, const Tensor& x) { return x + scalar; }
Tensor operator-(double scalar, const Tensor& x) {
  return ops::UnaryOp(ops::functor::Affine{-1, scalar}, x);
}
Tensor operator*(double scalar, const Tensor& x) { return x * scalar; }
Tensor operator/(double scalar, const Tensor& x) {
  return ops::UnaryOp(ops::functor::DivideScalarBy{scalar}, x);
}

Tensor operator-(const Tensor& x) { return x * -1; }

}  // namespace tost
