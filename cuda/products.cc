#include <vector>

#include "cuda/blas.h"
#include "cuda/install.h"
#include "cuda/runtime.h"
#include "ops/linear.h"
#include "ops/matmul.h"
#include "ops/matmul_products.h"

namespace tost::cuda {
namespace {

// Each tensor counts as the matrix of its rows.
int64_t Columns(const Tensor& x) { return x.shape()[-1]; }

void Gemm(const ops::GemmOptions& options, const Tensor& a, const Tensor& b, Tensor& c) {
  Multiply({.m = c.shape().Rows(),
            .n = Columns(c),
            .k = options.transpose_a ? a.shape().Rows() : Columns(a),
            .transpose_a = options.transpose_a,
            .transpose_b = options.transpose_b,
            .add = options.add,
            .operands = a.dtype(),
            .result = c.dtype(),
            .a_stride = Columns(a),
            .b_stride = Columns(b),
            .c_stride = Columns(c)},
           a.raw(), b.raw(), nullptr, c.mutable_raw(), ComputeStream());
}

// The operands of a batched product, addressed by matrix.
struct Matrices {
  const Tensor& a;
  const Tensor& b;
  Tensor& c;

  static int64_t SizeOfOne(const Tensor& x) { return x.shape()[-2] * x.shape()[-1]; }
  static int64_t ByteOffset(const Tensor& x, int64_t matrix) {
    return matrix * SizeOfOne(x) * static_cast<int64_t>(SizeOf(x.dtype()));
  }
  void Multiply(const Product& product, const std::array<int64_t, 3>& first) const {
    cuda::Multiply(product, a.raw() + ByteOffset(a, first[0]), b.raw() + ByteOffset(b, first[1]),
                   nullptr, c.mutable_raw() + ByteOffset(c, first[2]), ComputeStream());
  }
};

// Products that nothing sums: the innermost batch axis is one batched call.
void MultiplyInBatches(const ops::MatmulProducts& products, Product product, const Matrices& on) {
  const int64_t inner = products.plan.inner();
  const auto stride = [&](int operand, const Tensor& x) {
    return products.plan.strides[operand][products.plan.rank - 1] * Matrices::SizeOfOne(x);
  };
  product.batches = inner;
  product.a_batch = stride(0, on.a);
  product.b_batch = stride(1, on.b);
  product.c_batch = stride(2, on.c);
  for (int64_t i = 0; i < products.count; i += inner) on.Multiply(product, products.Offsets(i));
}

// Products of which some are summed, one after the other.
void MultiplyAndSum(const ops::MatmulProducts& products, Product product, const Matrices& on) {
  const bool add = product.add;
  std::vector<bool> written(static_cast<size_t>(on.c.numel() / Matrices::SizeOfOne(on.c)), add);
  for (int64_t i = 0; i < products.count; ++i) {
    const std::array<int64_t, 3> offsets = products.Offsets(i);
    const auto target = static_cast<size_t>(offsets[2]);
    product.add = written[target];
    on.Multiply(product, offsets);
    written[target] = true;
  }
}

void Matmul(ops::MatmulForm form, const Tensor& a, const Tensor& b, Tensor& c) {
  if (c.numel() == 0) return;
  const ops::MatmulProducts products(form.transpose_a, form.transpose_b, a.shape(), b.shape(),
                                     c.shape());
  const Product product{.m = products.m,
                        .n = products.n,
                        .k = products.k,
                        .transpose_a = form.transpose_a,
                        .transpose_b = form.transpose_b,
                        .add = form.add,
                        .operands = a.dtype(),
                        .result = c.dtype(),
                        .a_stride = a.shape()[-1],
                        .b_stride = b.shape()[-1],
                        .c_stride = c.shape()[-1]};
  const Matrices matrices{a, b, c};
  if (products.Sums()) {
    MultiplyAndSum(products, product, matrices);
  } else {
    MultiplyInBatches(products, product, matrices);
  }
}

}  // namespace

void InstallProductKernels() {
  ops::gemm_kernel.Install(DeviceType::kCuda, &Gemm);
  ops::matmul_kernel.Install(DeviceType::kCuda, &Matmul);
}

}  // namespace tost::cuda
