// A product of cuda/blas.h in the terms of cuBLASLt. Building it needs no driver, so it is tested
// on machines without a GPU.
#ifndef TOST_CUDA_BLAS_DESCRIPTION_H_
#define TOST_CUDA_BLAS_DESCRIPTION_H_

#include <cublasLt.h>

#include <cstddef>

#include "cuda/blas.h"

namespace tost::cuda {

// CHECK-fails with the call and the status by name unless it is a success.
void CheckBlas(cublasStatus_t status, const char* call);

// cuBLASLt's matrices are column-major: a row-major c[m, n] is its C[n, m], and the product reads
// C = op(B) op(A).
class ProductDescription {
 public:
  // `with_bias`: the epilogue adds a float32 vector [n] to every row of c.
  ProductDescription(const Product& product, Float32Products mode, bool with_bias);
  ~ProductDescription();
  ProductDescription(const ProductDescription&) = delete;
  ProductDescription& operator=(const ProductDescription&) = delete;

  void set_bias(const void* bias) const;

  cublasLtMatmulDesc_t operation() const { return operation_; }
  cublasLtMatrixLayout_t first() const { return first_; }    // B
  cublasLtMatrixLayout_t second() const { return second_; }  // A
  cublasLtMatrixLayout_t result() const { return result_; }  // C

 private:
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t first_ = nullptr, second_ = nullptr, result_ = nullptr;
};

// What algorithms may do: a workspace of `workspace_bytes`, operands aligned to `alignment` bytes,
// and partial sums only in an order that never changes (none added in place by racing blocks).
class AlgorithmPreference {
 public:
  AlgorithmPreference(size_t workspace_bytes, uint32_t alignment);
  ~AlgorithmPreference();
  AlgorithmPreference(const AlgorithmPreference&) = delete;
  AlgorithmPreference& operator=(const AlgorithmPreference&) = delete;

  cublasLtMatmulPreference_t get() const { return preference_; }

 private:
  cublasLtMatmulPreference_t preference_ = nullptr;
};

}  // namespace tost::cuda

#endif  // TOST_CUDA_BLAS_DESCRIPTION_H_
