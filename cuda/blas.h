// Matrix products on the device: a thin interface over cuBLASLt, the GEMM library. The emulated
// device has a product on the host behind it (tests/simt/host_blas.cc).
#ifndef TOST_CUDA_BLAS_H_
#define TOST_CUDA_BLAS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "autograd/base/dtype.h"

namespace tost::cuda {

// One product, or `batches` of them at constant strides. All matrices are row-major and dense:
//   c[m, n] = alpha · op(a)[m, k] · op(b)[k, n]  (+ c when `add`)  (+ bias[n] on each row)
// a is stored as [m, k], or [k, m] when transposed; b as [k, n] or [n, k].
struct Product {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  bool add = false;
  double alpha = 1;
  DType operands = DType::kFloat32;  // of a and b
  DType result = DType::kFloat32;    // of c: that of the operands, or float32 for bfloat16
  int64_t a_stride = 0, b_stride = 0, c_stride = 0;  // elements from a stored row to the next
  int64_t batches = 1;
  int64_t a_batch = 0, b_batch = 0, c_batch = 0;  // elements from a matrix to the next
};

// How float32 operands are multiplied. TF32 rounds them to 10 bits of mantissa and is several times
// faster on tensor cores; sums are float32 in both.
enum class Float32Products { kExact, kTensorFloat32 };
void SetFloat32Products(Float32Products mode);

// Whether the library adds a bias to this product in the same pass: for float32, not for bfloat16
// results, whose bias it wants in bfloat16.
bool CanAddBias(const Product& product, const void* a, const void* b, const void* c);

// Queues the product on the stream. `bias` is null or, where CanAddBias, a vector [n] of float32
// (float64 for float64). GELU is not asked of the library: its epilogue is the tanh approximation,
// the models' is exact. Nor are gradients of biases, whose order of summation it does not state.
void Multiply(const Product& product, const void* a, const void* b, const void* bias, void* c,
              cudaStream_t stream);

}  // namespace tost::cuda

#endif  // TOST_CUDA_BLAS_H_
