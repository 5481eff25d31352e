#include "ops/dropout.h"

#include "autograd/tape.h"
#include "ops/cpu/dropout.h"

namespace tost::ops {

constinit Kernel<DropoutFn> dropout_kernel{"dropout", &cpu::Dropout};

namespace {

void CheckRate(const char* op, float rate) {
  TOST_CHECK(rate >= 0 && rate < 1) << op << ": rate " << rate << " is outside [0, 1)";
}

Tensor Masked(const char* op, const Tensor& x, const DropoutOptions& options) {
  CheckRate(op, options.rate);
  if (options.rate == 0) return x;
  TOST_CHECK(x.shape().rank() > 0) << op << ": x needs an axis of samples";
  Tensor y = Tensor::Empty(x.shape(), x.dtype(), x.device());
  dropout_kernel.On(x.device().type)(options, x, y);

  Tape* tape = Tape::Current();
  if (tape == nullptr) return y;
  return tape->Record(op, {x.grad()}, y, [options, x = SavedShape(x)](const Tensor& dy) {
    x.Gradient([&](Tensor& dx, bool add) {
      DropoutOptions backward = options;
      backward.add = add;
      dropout_kernel.On(dy.device().type)(backward, dy, dx);
    });
  });
}

}  // namespace

Tensor Dropout(const Tensor& x, float rate, const RandomKey& key) {
  return Masked("dropout", x, {.rate = rate, .key = key});
}

Tensor DropPath(const Tensor& x, float rate, const RandomKey& key) {
  return Masked("drop_path", x, {.rate = rate, .key = key, .whole_rows = true});
}

Tensor DropoutMask(const Shape& shape, float rate, const RandomKey& key, DType dtype,
                   Device device) {
  CheckRate("dropout_mask", rate);
  TOST_CHECK(shape.rank() > 0) << "dropout_mask: the shape needs an axis of samples";
  Tensor mask = Tensor::Empty(shape, dtype, device);
  dropout_kernel.On(device.type)({.rate = rate, .key = key}, Tensor(), mask);
  return mask;
}

}  // namespace tost::ops
