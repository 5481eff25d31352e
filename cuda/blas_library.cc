// cuBLASLt, opened when the first device is: the library looks for NVIDIA's driver as soon as it is
// loaded, and is half a gigabyte, neither of which is for a program that computes on the CPU. Each
// function of its that tost calls is defined here and passes the call on.
#include "cuda/blas_library.h"

#include <cublasLt.h>
#include <dlfcn.h>

#include "absl/strings/str_cat.h"
#include "autograd/base/errors.h"

namespace tost::cuda {
namespace {

void* Library() {
  static void* const library =
      dlopen(absl::StrCat("libcublasLt.so.", CUBLAS_VER_MAJOR).c_str(), RTLD_NOW | RTLD_LOCAL);
  return library;
}

template <class Function>
Function* Find(const char* name) {
  TOST_CHECK(Library() != nullptr) << name << " without OpenBlasLibrary";
  auto* const function = reinterpret_cast<Function*>(dlsym(Library(), name));
  TOST_CHECK(function != nullptr) << "cuBLASLt has no function " << name;
  return function;
}

}  // namespace

absl::Status OpenBlasLibrary() {
  if (Library() != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("cannot open cuBLASLt: ", dlerror(),
                   "; install the libraries of the CUDA Toolkit or name their folder in "
                   "LD_LIBRARY_PATH"));
}

}  // namespace tost::cuda

// The function `name` with these parameters is the library's function of that name.
#define TOST_PASS_ON(result, name, parameters, arguments)                  \
  extern "C" result name parameters {                                      \
    static auto* const function = tost::cuda::Find<decltype(name)>(#name); \
    return function arguments;                                             \
  }

TOST_PASS_ON(cublasStatus_t, cublasLtCreate, (cublasLtHandle_t * handle), (handle))
TOST_PASS_ON(const char*, cublasLtGetStatusName, (cublasStatus_t status), (status))
TOST_PASS_ON(const char*, cublasLtGetStatusString, (cublasStatus_t status), (status))
TOST_PASS_ON(cublasStatus_t, cublasLtMatmul,
             (cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha,
              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
              cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
              const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t workspace_bytes,
              cudaStream_t stream),
             (handle, operation, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout,
              algorithm, workspace, workspace_bytes, stream))
TOST_PASS_ON(cublasStatus_t, cublasLtMatmulAlgoGetHeuristic,
             (cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
              cublasLtMatrixLayout_t a_layout, cublasLtMatrixLayout_t b_layout,
              cublasLtMatrixLayout_t c_layout, cublasLtMatrixLayout_t d_layout,
              cublasLtMatmulPreference_t preference, int wanted,
              cublasLtMatmulHeuristicResult_t* results, int* found),
             (handle, operation, a_layout, b_layout, c_layout, d_layout, preference, wanted,
              results, found))
TOST_PASS_ON(cublasStatus_t, cublasLtMatmulDescCreate,
             (cublasLtMatmulDesc_t * operation, cublasComputeType_t compute, cudaDataType_t scale),
             (operation, compute, scale))
TOST_PASS_ON(cublasStatus_t, cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t operation),
             (operation))
TOST_PASS_ON(cublasStatus_t, cublasLtMatmulDescSetAttribute,
             (cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute,
              const void* value, size_t bytes),
             (operation, attribute, value, bytes))
TOST_PASS_ON(cublasStatus_t, cublasLtMatrixLayoutCreate,
             (cublasLtMatrixLayout_t * layout, cudaDataType type, uint64_t rows, uint64_t columns,
              int64_t stride),
             (layout, type, rows, columns, stride))
TOST_PASS_ON(cublasStatus_t, cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t layout), (layout))
TOST_PASS_ON(cublasStatus_t, cublasLtMatrixLayoutSetAttribute,
             (cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute,
              const void* value, size_t bytes),
             (layout, attribute, value, bytes))
TOST_PASS_ON(cublasStatus_t, cublasLtMatmulPreferenceCreate,
             (cublasLtMatmulPreference_t * preference), (preference))
TOST_PASS_ON(cublasStatus_t, cublasLtMatmulPreferenceDestroy,
             (cublasLtMatmulPreference_t preference), (preference))
TOST_PASS_ON(cublasStatus_t, cublasLtMatmulPreferenceSetAttribute,
             (cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
              const void* value, size_t bytes),
             (preference, attribute, value, bytes))
