// The GEMM library of the device, which is opened when it is needed.
#ifndef TOST_CUDA_BLAS_LIBRARY_H_
#define TOST_CUDA_BLAS_LIBRARY_H_

#include "absl/status/status.h"

namespace tost::cuda {

// Opens cuBLASLt, before the first product. Errors: it is not installed. The emulated device has
// its products in tests/simt/host_blas.cc and opens nothing.
absl::Status OpenBlasLibrary();

}  // namespace tost::cuda

#endif  // TOST_CUDA_BLAS_LIBRARY_H_
