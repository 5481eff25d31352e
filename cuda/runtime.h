// One CUDA device as the core sees it: memory, copies, one stream on which everything is computed.
#ifndef TOST_CUDA_RUNTIME_H_
#define TOST_CUDA_RUNTIME_H_

#include <cuda_runtime.h>

#include <memory>

#include "autograd/device.h"

namespace tost::cuda {

// A runtime for device `index`, which becomes this process's current device. CHECK-fails with
// CUDA's words when a call does.
//
//  · Memory comes from a cache of blocks by size class, as on the CPU. All work is on one stream,
//    so a block that the host has returned may be handed out again at once: whoever gets it next
//    runs later. After the first updates no call reaches the driver, and the addresses of an update
//    repeat, which is what capturing it as a graph needs.
//  · CopyIn goes through pinned staging memory and returns when the host's memory may be reused,
//    not when the device has the bytes. CopyOut waits.
std::unique_ptr<DeviceRuntime> MakeRuntime(int index);

// The stream of all kernels and copies of this process.
cudaStream_t ComputeStream();

}  // namespace tost::cuda

#endif  // TOST_CUDA_RUNTIME_H_
