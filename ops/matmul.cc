#include "ops/matmul.h"

#include "absl/strings/str_cat.h"
#include "autograd/tape.h"
#include "ops/elementwise_kernels.h"

namespace tost::ops {

constinit Kernel<MatmulFn> matmul_kernel{"matmul", &cpu::Matmul};

namespace {

int64_t MatrixCount(const Shape& shape) { return shape.Before(-2); }

// A gradient of a product, whose operand had the batch of `batched` or repeated along it. What is
// summed over a batch would be rounded after each term in bfloat16, and is therefore summed in
// float.
void Gradient(MatmulForm form, const Tensor& a, const Tensor& b, const Tensor& batched, Tensor& out,
              bool add) {
  const auto matmul = matmul_kernel.On(out.device().type);
  const DType dtype = AccumulateDType(out.dtype());
  const bool sums = MatrixCount(out.shape()) != MatrixCount(batched.shape());
  if (!sums || out.dtype() == dtype) {
    form.add = add;
    return matmul(form, a, b, out);
  }
  Tensor wide = Tensor::Empty(out.shape(), dtype, out.device());
  matmul(form, a, b, wide);
  scaled_copy_kernel.On(out.device().type)(1, wide, out, add);
}

}  // namespace

absl::StatusOr<Shape> MatmulShape(const Shape& a, const Shape& b) {
  auto operands = [&] { return absl::StrCat(" (a ", a.ToString(), ", b ", b.ToString(), ")"); };
  if (a.rank() < 2 || b.rank() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("Matmul: both operands need at least two axes", operands()));
  }
  if (a[-1] != b[-2]) {
    return absl::InvalidArgumentError(
        absl::StrCat("Matmul: a has ", a[-1], " columns but b has ", b[-2], " rows", operands()));
  }
  auto batch_of = [](const Shape& x) { return Shape(x.extents().first(x.extents().size() - 2)); };
  const absl::StatusOr<Shape> batch = BroadcastShape(batch_of(a), batch_of(b));
  if (!batch.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("Matmul: the batch extents do not broadcast", operands()));
  }
  return batch->Appended(a[-2]).Appended(b[-1]);
}

Tensor Matmul(const Tensor& a, const Tensor& b) {
  TOST_CHECK(a.dtype() == b.dtype())
      << "Matmul: dtypes differ: " << a.dtype() << " and " << b.dtype();
  Tensor y =
      Tensor::Empty(TOST_CHECK_VALUE(MatmulShape(a.shape(), b.shape())), a.dtype(), a.device());
  matmul_kernel.On(a.device().type)({}, a, b, y);

  Tape* tape = Tape::Current();
  if (tape == nullptr) return y;
  // Each gradient reads the other operand only.
  const Tensor a_read = b.grad() != nullptr ? a.Detached() : Tensor();
  const Tensor b_read = a.grad() != nullptr ? b.Detached() : Tensor();
  return tape->Record("matmul", {a.grad(), b.grad()}, y,
                      [a = SavedShape(a), b = SavedShape(b), a_value = Saved(a_read),
                       b_value = Saved(b_read)](const Tensor& dy) {
                        a.Gradient([&](Tensor& da, bool add) {
                          Gradient({.transpose_b = true}, dy, b_value, dy, da, add);
                        });
                        b.Gradient([&](Tensor& db, bool add) {
                          Gradient({.transpose_a = true}, a_value, dy, dy, db, add);
                        });
                      });
}

}  // namespace tost::ops
