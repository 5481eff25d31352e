// The one header that a kernel file includes. Under nvcc it is CUDA; under any other compiler the
// same kernels run on the emulator in tests/simt, for tests on machines without a GPU.
//
// Kernels are plain CUDA but for what both compilers must read alike:
//
//   gpu::Launch(Kernel<T>, grid, block, shared_bytes, stream, …)   instead of kernel<<<…>>>(…)
//   TOST_SHARED(float, tile, [32][33]);                            instead of __shared__
//   TOST_DYNAMIC_SHARED(float, tile);                              instead of extern __shared__
#ifndef TOST_CUDA_GPU_H_
#define TOST_CUDA_GPU_H_

#include <cstddef>
#include <cstdint>

#include "autograd/base/bfloat16.h"

#ifdef __CUDACC__

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#define TOST_SHARED(type, name, extents) __shared__ type name extents
// The block's dynamic shared memory, 16-byte aligned. At most one per kernel.
#define TOST_DYNAMIC_SHARED(type, name)                                       \
  extern __shared__ __align__(16) unsigned char tost_dynamic_shared_memory[]; \
  type* name = reinterpret_cast<type*>(tost_dynamic_shared_memory)

namespace tost::gpu {

inline constexpr bool kEmulated = false;

template <class... Parameters, class... Arguments>
void Start(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
           cudaStream_t stream, const Arguments&... arguments) {
  kernel<<<grid, block, shared_bytes, stream>>>(static_cast<Parameters>(arguments)...);
}

}  // namespace tost::gpu

#else

#include "tests/simt/simt.h"

#endif

namespace tost::gpu {

// CHECK-fails with the call, its subject (a kernel's name, a shape) and the runtime's own words,
// unless `status` is cudaSuccess. Defined in cuda/runtime.cc.
void CheckCall(cudaError_t status, const char* call, const void* kernel = nullptr);

// Dynamic shared memory that a kernel has without asking.
inline constexpr size_t kSharedWithoutOptIn = 48 * 1024;

// Queues kernel(arguments…) on the stream: the one door to the device. An empty grid does nothing.
// Arguments are converted to the kernel's parameter types and copied.
template <class... Parameters, class... Arguments>
void Launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
            cudaStream_t stream, const Arguments&... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  const void* address = reinterpret_cast<const void*>(kernel);
  if (shared_bytes > kSharedWithoutOptIn) {
    CheckCall(cudaFuncSetAttribute(address, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   static_cast<int>(shared_bytes)),
              "cudaFuncSetAttribute", address);
  }
  Start(kernel, grid, block, shared_bytes, stream, arguments...);
  CheckCall(cudaGetLastError(), "launch", address);
}

}  // namespace tost::gpu

#endif  // TOST_CUDA_GPU_H_
