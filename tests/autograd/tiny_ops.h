// Four ops written straight on Tape::Record, so that the tests of the core need nothing above it.
#ifndef TOST_TESTS_AUTOGRAD_TINY_OPS_H_
#define TOST_TESTS_AUTOGRAD_TINY_OPS_H_

#include <utility>

#include "autograd/tape.h"
#include "autograd/tensor.h"

namespace tost::tiny {

// out[i] = value(i), or += value(i) when `add`.
template <class Value>
void Write(Tensor& out, bool add, Value&& value) {
  VisitFloat(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* data = out.mutable_data<T>();
    for (int64_t i = 0; i < out.numel(); ++i) {
      const double old = add ? static_cast<double>(data[i]) : 0.0;
      data[i] = static_cast<T>(old + value(i));
    }
  });
}

inline double At(const Tensor& x, int64_t i) {
  return VisitFloat(x.dtype(),
                    [&](auto zero) { return static_cast<double>(x.data<decltype(zero)>()[i]); });
}

// a · b, elementwise, equal shapes.
inline Tensor Times(const Tensor& a, const Tensor& b) {
  Tensor y = Tensor::Empty(a.shape(), a.dtype());
  Write(y, false, [&](int64_t i) { return At(a, i) * At(b, i); });
  Tape* tape = Tape::Current();
  if (tape == nullptr) return y;
  return tape->Record("times", {a.grad(), b.grad()}, y,
                      [a = Saved(a), b = Saved(b)](const Tensor& dy) {
                        a.Gradient([&](Tensor& da, bool add) {
                          Write(da, add, [&](int64_t i) { return At(dy, i) * At(b, i); });
                        });
                        b.Gradient([&](Tensor& db, bool add) {
                          Write(db, add, [&](int64_t i) { return At(dy, i) * At(a, i); });
                        });
                      });
}

// a + b, elementwise, equal shapes. Hands its gradient on to b without a copy where it can.
inline Tensor Plus(const Tensor& a, const Tensor& b) {
  Tensor y = Tensor::Empty(a.shape(), a.dtype());
  Write(y, false, [&](int64_t i) { return At(a, i) + At(b, i); });
  Tape* tape = Tape::Current();
  if (tape == nullptr) return y;
  return tape->Record("plus", {a.grad(), b.grad()}, y,
                      [a = SavedShape(a), b = SavedShape(b)](const Tensor& dy) {
                        auto copy = [&](Tensor& out, bool add) {
                          Write(out, add, [&](int64_t i) { return At(dy, i); });
                        };
                        a.Gradient(copy);
                        b.PassGradient(dy, copy);
                      });
}

// factor · x. `gradient_factor` lets a test plant a wrong gradient.
inline Tensor Scaled(const Tensor& x, double factor, double gradient_factor) {
  Tensor y = Tensor::Empty(x.shape(), x.dtype());
  Write(y, false, [&](int64_t i) { return At(x, i) * factor; });
  Tape* tape = Tape::Current();
  if (tape == nullptr) return y;
  return tape->Record("scaled", {x.grad()}, y, [x = SavedShape(x), gradient_factor](Tensor dy) {
    x.Gradient([&](Tensor& dx, bool add) {
      Write(dx, add, [&](int64_t i) { return At(dy, i) * gradient_factor; });
    });
  });
}
inline Tensor Scaled(const Tensor& x, double factor) { return Scaled(x, factor, factor); }

// Σ x, a scalar.
inline Tensor Total(const Tensor& x) {
  double sum = 0;
  for (int64_t i = 0; i < x.numel(); ++i) sum += At(x, i);
  Tensor y = Tensor::Scalar(sum, x.dtype());
  Tape* tape = Tape::Current();
  if (tape == nullptr) return y;
  return tape->Record("total", {x.grad()}, y, [x = SavedShape(x)](const Tensor& dy) {
    x.Gradient([&](Tensor& dx, bool add) { Write(dx, add, [&](int64_t) { return At(dy, 0); }); });
  });
}

// A float64 vector that wants a gradient.
inline Tensor LeafOf(std::vector<double> values) {
  return Leaf(Tensor::FromHost(Shape{static_cast<int64_t>(values.size())}, values));
}

inline std::vector<double> GradientOf(const Tensor& leaf) {
  return leaf.grad()->value().ToHost<double>();
}

}  // namespace tost::tiny

#endif  // TOST_TESTS_AUTOGRAD_TINY_OPS_H_
