#include "cuda/blas_description.h"

#include "autograd/base/errors.h"

namespace tost::cuda {
namespace {

cudaDataType_t TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return CUDA_R_32F;
    case DType::kBFloat16:
      return CUDA_R_16BF;
    default:
      break;
  }
  TOST_CHECK(false) << "CUDA products are of float32 or bfloat16, got " << Name(dtype);
  __builtin_unreachable();
}

template <class Value>
void Set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, Value value) {
  CheckBlas(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof(value)),
            "cublasLtMatmulDescSetAttribute");
}

template <class Value>
void Set(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, Value value) {
  CheckBlas(cublasLtMatrixLayoutSetAttribute(layout, attribute, &value, sizeof(value)),
            "cublasLtMatrixLayoutSetAttribute");
}

template <class Value>
void Set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
         Value value) {
  CheckBlas(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)),
            "cublasLtMatmulPreferenceSetAttribute");
}

// `rows` and `columns` as cuBLASLt sees the stored matrix.
cublasLtMatrixLayout_t Layout(DType dtype, int64_t rows, int64_t columns, int64_t stride,
                              int64_t batches, int64_t batch_stride) {
  cublasLtMatrixLayout_t layout = nullptr;
  CheckBlas(cublasLtMatrixLayoutCreate(&layout, TypeOf(dtype), static_cast<uint64_t>(rows),
                                       static_cast<uint64_t>(columns), stride),
            "cublasLtMatrixLayoutCreate");
  if (batches > 1) {
    Set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(batches));
    Set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, batch_stride);
  }
  return layout;
}

cublasComputeType_t ComputeType(const Product& product, Float32Products mode) {
  const bool rounds =
      product.operands == DType::kFloat32 && mode == Float32Products::kTensorFloat32;
  return rounds ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

cublasOperation_t Operation(bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; }

}  // namespace

void CheckBlas(cublasStatus_t status, const char* call) {
  TOST_CHECK(status == CUBLAS_STATUS_SUCCESS)
      << "cuBLASLt: " << call << ": " << cublasLtGetStatusString(status) << " ("
      << cublasLtGetStatusName(status) << ")";
}

ProductDescription::ProductDescription(const Product& p, Float32Products mode, bool with_bias) {
  CheckBlas(cublasLtMatmulDescCreate(&operation_, ComputeType(p, mode), CUDA_R_32F),
            "cublasLtMatmulDescCreate");
  Set(operation_, CUBLASLT_MATMUL_DESC_TRANSA, Operation(p.transpose_b));
  Set(operation_, CUBLASLT_MATMUL_DESC_TRANSB, Operation(p.transpose_a));
  if (with_bias) {
    Set(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    Set(operation_, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<int32_t>(CUDA_R_32F));
  }
  first_ = p.transpose_b ? Layout(p.operands, p.k, p.n, p.b_stride, p.batches, p.b_batch)
                         : Layout(p.operands, p.n, p.k, p.b_stride, p.batches, p.b_batch);
  second_ = p.transpose_a ? Layout(p.operands, p.m, p.k, p.a_stride, p.batches, p.a_batch)
                          : Layout(p.operands, p.k, p.m, p.a_stride, p.batches, p.a_batch);
  result_ = Layout(p.result, p.n, p.m, p.c_stride, p.batches, p.c_batch);
}

ProductDescription::~ProductDescription() {
  cublasLtMatrixLayoutDestroy(result_);
  cublasLtMatrixLayoutDestroy(second_);
  cublasLtMatrixLayoutDestroy(first_);
  cublasLtMatmulDescDestroy(operation_);
}

void ProductDescription::set_bias(const void* bias) const {
  Set(operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
}

AlgorithmPreference::AlgorithmPreference(size_t workspace_bytes, uint32_t alignment) {
  CheckBlas(cublasLtMatmulPreferenceCreate(&preference_), "cublasLtMatmulPreferenceCreate");
  Set(preference_, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
  Set(preference_, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE |
                            CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE));
  for (const cublasLtMatmulPreferenceAttributes_t operand :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    Set(preference_, operand, alignment);
  }
}

AlgorithmPreference::~AlgorithmPreference() { cublasLtMatmulPreferenceDestroy(preference_); }

}  // namespace tost::cuda
