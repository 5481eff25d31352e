// What of CUDA's libraries works without a driver: the arguments of products, and that NCCL links.
#include <vector>

#ifdef TOST_HAVE_NCCL
#include <nccl.h>
#endif

#include "cuda/blas_description.h"
#include "gtest/gtest.h"

namespace tost::cuda {
namespace {

template <class Value>
Value Attribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute) {
  Value value{};
  size_t written = 0;
  CheckBlas(cublasLtMatrixLayoutGetAttribute(layout, attribute, &value, sizeof(value), &written),
            "cublasLtMatrixLayoutGetAttribute");
  return value;
}

template <class Value>
Value Attribute(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute) {
  Value value{};
  size_t written = 0;
  CheckBlas(cublasLtMatmulDescGetAttribute(operation, attribute, &value, sizeof(value), &written),
            "cublasLtMatmulDescGetAttribute");
  return value;
}

struct Extents {
  uint64_t rows, columns;
  int64_t stride;
  friend bool operator==(const Extents&, const Extents&) = default;
};

Extents ExtentsOf(cublasLtMatrixLayout_t layout) {
  return {Attribute<uint64_t>(layout, CUBLASLT_MATRIX_LAYOUT_ROWS),
          Attribute<uint64_t>(layout, CUBLASLT_MATRIX_LAYOUT_COLS),
          Attribute<int64_t>(layout, CUBLASLT_MATRIX_LAYOUT_LD)};
}

// y[4, 7] = x[4, 5] w[7, 5]ᵀ: in column-major terms y'[7, 4] = (w'[5, 7])ᵀ x'[5, 4].
Product LinearForward() {
  return {.m = 4, .n = 7, .k = 5, .transpose_b = true, .a_stride = 5, .b_stride = 5, .c_stride = 7};
}

TEST(BlasDescription, ForwardOfALinearLayer) {
  const ProductDescription description(LinearForward(), Float32Products::kExact, false);
  EXPECT_EQ(ExtentsOf(description.first()), (Extents{5, 7, 5}));
  EXPECT_EQ(ExtentsOf(description.second()), (Extents{5, 4, 5}));
  EXPECT_EQ(ExtentsOf(description.result()), (Extents{7, 4, 7}));
  EXPECT_EQ(Attribute<int32_t>(description.operation(), CUBLASLT_MATMUL_DESC_TRANSA), CUBLAS_OP_T);
  EXPECT_EQ(Attribute<int32_t>(description.operation(), CUBLASLT_MATMUL_DESC_TRANSB), CUBLAS_OP_N);
  EXPECT_EQ(Attribute<int32_t>(description.operation(), CUBLASLT_MATMUL_DESC_EPILOGUE),
            CUBLASLT_EPILOGUE_DEFAULT);
}

// dw[7, 5] = dy[4, 7]ᵀ x[4, 5]: dw'[5, 7] = x'[5, 4] (dy'[7, 4])ᵀ.
TEST(BlasDescription, GradientOfAWeight) {
  const ProductDescription description(
      {.m = 7, .n = 5, .k = 4, .transpose_a = true, .a_stride = 7, .b_stride = 5, .c_stride = 5},
      Float32Products::kExact, false);
  EXPECT_EQ(ExtentsOf(description.first()), (Extents{5, 4, 5}));
  EXPECT_EQ(ExtentsOf(description.second()), (Extents{7, 4, 7}));
  EXPECT_EQ(ExtentsOf(description.result()), (Extents{5, 7, 5}));
  EXPECT_EQ(Attribute<int32_t>(description.operation(), CUBLASLT_MATMUL_DESC_TRANSA), CUBLAS_OP_N);
  EXPECT_EQ(Attribute<int32_t>(description.operation(), CUBLASLT_MATMUL_DESC_TRANSB), CUBLAS_OP_T);
}

TEST(BlasDescription, TypesAndModes) {
  Product product = LinearForward();
  const auto compute = [&](Float32Products mode) {
    const ProductDescription description(product, mode, false);
    return Attribute<int32_t>(description.operation(), CUBLASLT_MATMUL_DESC_COMPUTE_TYPE);
  };
  EXPECT_EQ(compute(Float32Products::kExact), CUBLAS_COMPUTE_32F);
  EXPECT_EQ(compute(Float32Products::kTensorFloat32), CUBLAS_COMPUTE_32F_FAST_TF32);
  product.operands = DType::kBFloat16;
  EXPECT_EQ(compute(Float32Products::kTensorFloat32), CUBLAS_COMPUTE_32F);
  const ProductDescription description(product, Float32Products::kExact, false);
  EXPECT_EQ(Attribute<uint32_t>(description.first(), CUBLASLT_MATRIX_LAYOUT_TYPE),
            static_cast<uint32_t>(CUDA_R_16BF));
  EXPECT_EQ(Attribute<uint32_t>(description.result(), CUBLASLT_MATRIX_LAYOUT_TYPE),
            static_cast<uint32_t>(CUDA_R_32F));
}

TEST(BlasDescription, BiasIsAnEpilogue) {
  const ProductDescription description(LinearForward(), Float32Products::kExact, true);
  const float bias[7] = {};
  description.set_bias(bias);
  EXPECT_EQ(Attribute<int32_t>(description.operation(), CUBLASLT_MATMUL_DESC_EPILOGUE),
            CUBLASLT_EPILOGUE_BIAS);
  EXPECT_EQ(Attribute<const void*>(description.operation(), CUBLASLT_MATMUL_DESC_BIAS_POINTER),
            bias);
}

TEST(BlasDescription, BatchesAreStrided) {
  Product product = LinearForward();
  product.batches = 3;
  product.a_batch = 20;
  product.b_batch = 0;
  product.c_batch = 28;
  const ProductDescription description(product, Float32Products::kExact, false);
  EXPECT_EQ(Attribute<int32_t>(description.second(), CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT), 3);
  EXPECT_EQ(Attribute<int64_t>(description.second(), CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET),
            20);
  EXPECT_EQ(Attribute<int64_t>(description.first(), CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET),
            0);
  EXPECT_EQ(Attribute<int64_t>(description.result(), CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET),
            28);
}

TEST(BlasDescription, AlgorithmsMayNotAddInPlace) {
  const AlgorithmPreference preference(size_t{1} << 20, 16);
  uint32_t schemes = 0;
  size_t written = 0;
  CheckBlas(cublasLtMatmulPreferenceGetAttribute(preference.get(),
                                                 CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                 &schemes, sizeof(schemes), &written),
            "cublasLtMatmulPreferenceGetAttribute");
  EXPECT_EQ(schemes & CUBLASLT_REDUCTION_SCHEME_INPLACE, 0u);
}

#ifdef TOST_HAVE_NCCL
TEST(Nccl, IsLinked) {
  int version = 0;
  EXPECT_EQ(ncclGetVersion(&version), ncclSuccess);
  EXPECT_GE(version, NCCL_VERSION(2, 14, 0));  // the first with communicators that do not block
}
#endif

}  // namespace
}  // namespace tost::cuda
