#include "cuda/runtime.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

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

// Work of the stream gathered into a graph and launched at once. The graph is captured anew each
// time, so every number in it is of its own update, and only brought up to date where its shape has
// not changed, which is quick.
class CapturedWork {
 public:
  CapturedWork() {
    CheckCall(cudaEventCreateWithFlags(&finished_, cudaEventDisableTiming),
              "cudaEventCreateWithFlags");
  }
  ~CapturedWork() {
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
    for (const Staging& staging : staging_) cudaFreeHost(staging.bytes);
    cudaEventDestroy(finished_);
  }

  bool capturing() const { return capturing_; }

  void Begin(cudaStream_t stream) {
    // The graph before this one reads the pinned memory that copies are staged in.
    CheckCall(cudaEventSynchronize(finished_), "cudaEventSynchronize");
    next_staging_ = 0;
    // Relaxed: an update that is larger than those before it may allocate.
    CheckCall(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed),
              "cudaStreamBeginCapture");
    capturing_ = true;
  }

  void Launch(cudaStream_t stream) {
    cudaGraph_t graph = nullptr;
    capturing_ = false;
    CheckCall(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    BringUpToDate(graph);
    CheckCall(cudaGraphDestroy(graph), "cudaGraphDestroy");
    CheckCall(cudaGraphLaunch(executable_, stream), "cudaGraphLaunch");
    CheckCall(cudaEventRecord(finished_, stream), "cudaEventRecord");
  }

  // A copy that the graph makes: its source stays as it is until the graph has run.
  void CopyIn(void* device, const void* host, size_t bytes, cudaStream_t stream) {
    if (next_staging_ == staging_.size()) staging_.emplace_back();
    Staging& staging = staging_[next_staging_++];
    if (staging.size < bytes) {
      if (staging.bytes != nullptr) CheckCall(cudaFreeHost(staging.bytes), "cudaFreeHost");
      CheckCall(cudaHostAlloc(&staging.bytes, bytes, cudaHostAllocDefault), "cudaHostAlloc");
      staging.size = bytes;
    }
    std::memcpy(staging.bytes, host, bytes);
    CheckCall(cudaMemcpyAsync(device, staging.bytes, bytes, cudaMemcpyHostToDevice, stream),
              "cudaMemcpyAsync to the device");
  }

 private:
  struct Staging {
    void* bytes = nullptr;
    size_t size = 0;
  };

  void BringUpToDate(cudaGraph_t graph) {
    if (executable_ != nullptr) {
      cudaGraphExecUpdateResultInfo info{};
      if (cudaGraphExecUpdate(executable_, graph, &info) == cudaSuccess) return;
      cudaGetLastError();  // clears it
      CheckCall(cudaGraphExecDestroy(executable_), "cudaGraphExecDestroy");
      executable_ = nullptr;
    }
    CheckCall(cudaGraphInstantiate(&executable_, graph, 0), "cudaGraphInstantiate");
  }

  bool capturing_ = false;
  cudaGraphExec_t executable_ = nullptr;
  cudaEvent_t finished_ = nullptr;
  std::vector<Staging> staging_;
  size_t next_staging_ = 0;
};

class CudaRuntime final : public DeviceRuntime {
 public:
  explicit CudaRuntime(int index)
      : blocks_({.allocate = &AllocateBlock, .release = &ReleaseBlock}) {
    CheckCall(cudaSetDevice(index), "cudaSetDevice");
    CheckCall(cudaStreamCreateWithFlags(&compute_stream, cudaStreamNonBlocking),
              "cudaStreamCreateWithFlags");
    staging_ = std::make_unique<StagingRing>();
    captured_ = std::make_unique<CapturedWork>();
  }

  void* Allocate(size_t bytes) override { return blocks_.Allocate(bytes); }
  void Release(void* bytes, size_t size) override { blocks_.Release(bytes, size); }

  void CopyIn(void* device, const void* host, size_t bytes) override {
    if (captured_->capturing()) return captured_->CopyIn(device, host, bytes, compute_stream);
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
  bool CanCapture() const override { return true; }
  void BeginCapture() override { captured_->Begin(compute_stream); }
  void LaunchCapture() override { captured_->Launch(compute_stream); }
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
  std::unique_ptr<CapturedWork> captured_;
};

}  // namespace

std::unique_ptr<DeviceRuntime> MakeRuntime(int index) {
  return std::make_unique<CudaRuntime>(index);
}

cudaStream_t ComputeStream() { return compute_stream; }

}  // namespace tost::cuda
