#include "cuda/blas.h"
#include "cuda/install.h"
#include "cuda/runtime.h"
#include "ops/linear.h"

namespace tost::cuda {
namespace {

// Each tensor counts as the matrix of its rows.
int64_t Columns(const Tensor& x) { return x.shape()[-1]; }
int64_t Rows(const Tensor& x) { return Columns(x) > 0 ? x.numel() / Columns(x) : 0; }

void Gemm(const ops::GemmOptions& options, const Tensor& a, const Tensor& b, Tensor& c) {
  Multiply({.m = options.transpose_a ? Columns(a) : Rows(a),
            .n = Columns(c),
            .k = options.transpose_a ? Rows(a) : Columns(a),
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

}  // namespace

void InstallProductKernels() { ops::gemm_kernel.Install(DeviceType::kCuda, &Gemm); }

}  // namespace tost::cuda
