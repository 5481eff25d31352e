#include "cuda/runtime.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>

#include "autograd/base/block_cache.h"
#include "autograd/base/errors.h"
#include "cuda/gpu.h"

namespace tost::gpu {

void CheckCall(cudaError_t status, const char* call, const void* kernel) {
  if (status == cudaSuccess) return;
  const char* name = nullptr;
  if (kernel != nullptr && cudaFuncGetName(&name, kernel) != cudaSuccess) name = nullptr;
  TOST_CHECK(false) << "CUDA: " << call << (name != nullptr ? " of " : "")
                    << (name != nullptr ? name : "") << ": " << cudaGetErrorString(status) << " ("
                    << cudaGetErrorName(status) << ")";
}

}  // namespace tost::gpu

namespace tost::cuda {
namespace {

using gpu::CheckCall;

cudaStream_t compute_stream = nullptr;

// Pinned memory that copies to the device start from. Each block is free again when the copy that
// reads it has passed on the stream.
class StagingRing {
 public:
  StagingRing() {
    for (Block& block : blocks_) {
      CheckCall(cudaHostAlloc(&block.bytes, kBlockBytes, cudaHostAllocDefault), "cudaHostAlloc");
      CheckCall(cudaEventCreateWithFlags(&block.copied, cudaEventDisableTiming),
                "cudaEventCreateWithFlags");
    }
  }
  ~StagingRing() {
    for (const Block& block : blocks_) {
      cudaEventDestroy(block.copied);
      cudaFreeHost(block.bytes);
    }
  }

  void CopyIn(std::byte* device, const std::byte* host, size_t bytes, cudaStream_t stream) {
    while (bytes > 0) {
      Block& block = blocks_[next_];
      next_ = (next_ + 1) % blocks_.size();
      const size_t part = std::min(bytes, kBlockBytes);
      // An event that was never recorded counts as passed.
      CheckCall(cudaEventSynchronize(block.copied), "cudaEventSynchronize");
      std::memcpy(block.bytes, host, part);
      CheckCall(cudaMemcpyAsync(device, block.bytes, part, cudaMemcpyHostToDevice, stream),
                "cudaMemcpyAsync to the device");
      CheckCall(cudaEventRecord(block.copied, stream), "cudaEventRecord");
      device += part;
      host += part;
      bytes -= part;
    }
  }

 private:
  static constexpr size_t kBlockBytes = size_t{4} << 20;
  struct Block {
    void* bytes = nullptr;
    cudaEvent_t copied = nullptr;
  };
  std::array<Block, 4> blocks_;
  size_t next_ = 0;
};

class CudaRuntime final : public DeviceRuntime {
 public:
  explicit CudaRuntime(int index)
      : blocks_({.allocate = &AllocateBlock, .release = &ReleaseBlock}) {
    CheckCall(cudaSetDevice(index), "cudaSetDevice");
    CheckCall(cudaStreamCreateWithFlags(&compute_stream, cudaStreamNonBlocking),
              "cudaStreamCreateWithFlags");
    staging_ = std::make_unique<StagingRing>();
  }

  void* Allocate(size_t bytes) override { return blocks_.Allocate(bytes); }
  void Release(void* bytes, size_t size) override { blocks_.Release(bytes, size); }

  void CopyIn(void* device, const void* host, size_t bytes) override {
    staging_->CopyIn(static_cast<std::byte*>(device), static_cast<const std::byte*>(host), bytes,
                     compute_stream);
  }
  void CopyOut(void* host, const void* device, size_t bytes) override {
    if (bytes == 0) return;
    CheckCall(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, compute_stream),
              "cudaMemcpyAsync to the host");
    Synchronize();
  }
  void Copy(void* to, const void* from, size_t bytes) override {
    if (bytes == 0) return;
    CheckCall(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, compute_stream),
              "cudaMemcpyAsync on the device");
  }
  void FillZero(void* device, size_t bytes) override {
    if (bytes == 0) return;
    CheckCall(cudaMemsetAsync(device, 0, bytes, compute_stream), "cudaMemsetAsync");
  }
  void Synchronize() override {
    CheckCall(cudaStreamSynchronize(compute_stream), "cudaStreamSynchronize");
  }
  MemoryStatistics Memory() const override { return blocks_.Memory(); }
  void ResetPeakMemory() override { blocks_.ResetPeakMemory(); }
  int64_t FreeBytes() const override {
    size_t free = 0, total = 0;
    return cudaMemGetInfo(&free, &total) == cudaSuccess ? static_cast<int64_t>(free) : -1;
  }

 private:
  // Null when the device has no such block left.
  static void* AllocateBlock(size_t bytes) {
    void* block = nullptr;
    const cudaError_t status = cudaMalloc(&block, bytes);
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // clears it
      return nullptr;
    }
    CheckCall(status, "cudaMalloc");
    return block;
  }
  static void ReleaseBlock(void* block) {
    // Work that still reads the block may be queued; cudaFree waits for it.
    CheckCall(cudaFree(block), "cudaFree");
  }

  BlockCache blocks_;
  std::unique_ptr<StagingRing> staging_;
};

}  // namespace

std::unique_ptr<DeviceRuntime> MakeRuntime(int index) {
  return std::make_unique<CudaRuntime>(index);
}

cudaStream_t ComputeStream() { return compute_stream; }

}  // namespace tost::cuda
