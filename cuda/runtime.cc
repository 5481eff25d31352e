#include "cuda/runtime.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "autograd/base/block_cache.h"
#include "autograd/base/errors.h"
#include "cuda/blas.h"
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

// Pinned memory that copies to the device start from. A block is free again when the copy that
// reads it has passed on the stream; as long as no more than kMostBytes wait there, the host never
// does.
class Staging {
 public:
  ~Staging() {
    for (const Block& block : blocks_) {
      cudaEventDestroy(block.copied);
      cudaFreeHost(block.bytes);
    }
  }

  void CopyIn(void* device, const void* host, size_t bytes, cudaStream_t stream) {
    Block& block = FreeBlock(bytes);
    std::memcpy(block.bytes, host, bytes);
    CheckCall(cudaMemcpyAsync(device, block.bytes, bytes, cudaMemcpyHostToDevice, stream),
              "cudaMemcpyAsync to the device");
    CheckCall(cudaEventRecord(block.copied, stream), "cudaEventRecord");
  }

 private:
  static constexpr size_t kMostBytes = size_t{1} << 30;
  struct Block {
    void* bytes = nullptr;
    size_t size = 0;
    cudaEvent_t copied = nullptr;
  };

  Block& FreeBlock(size_t bytes) {
    for (Block& block : blocks_) {
      if (block.size >= bytes && HasPassed(block)) return block;
    }
    if (total_bytes_ + bytes > kMostBytes) ReleaseAll();
    return NewBlock(bytes);
  }
  static bool HasPassed(const Block& block) {
    const cudaError_t status = cudaEventQuery(block.copied);
    if (status == cudaErrorNotReady) {
      cudaGetLastError();  // clears it
      return false;
    }
    CheckCall(status, "cudaEventQuery");
    return true;
  }
  void ReleaseAll() {
    for (const Block& block : blocks_) {
      CheckCall(cudaEventSynchronize(block.copied), "cudaEventSynchronize");
      CheckCall(cudaEventDestroy(block.copied), "cudaEventDestroy");
      CheckCall(cudaFreeHost(block.bytes), "cudaFreeHost");
    }
    blocks_.clear();
    total_bytes_ = 0;
  }
  Block& NewBlock(size_t bytes) {
    constexpr size_t kSmallest = size_t{64} << 10;
    Block block{.size = std::max(bytes, kSmallest)};
    CheckCall(cudaHostAlloc(&block.bytes, block.size, cudaHostAllocDefault), "cudaHostAlloc");
    CheckCall(cudaEventCreateWithFlags(&block.copied, cudaEventDisableTiming),
              "cudaEventCreateWithFlags");
    total_bytes_ += block.size;
    return blocks_.emplace_back(block);
  }

  std::vector<Block> blocks_;
  size_t total_bytes_ = 0;
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
    for (const Source& source : sources_) cudaFreeHost(source.bytes);
    cudaEventDestroy(finished_);
  }

  bool capturing() const { return capturing_; }

  void Begin(cudaStream_t stream) {
    // The graph before this one reads the pinned memory that copies are staged in.
    CheckCall(cudaEventSynchronize(finished_), "cudaEventSynchronize");
    next_source_ = 0;
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
    if (next_source_ == sources_.size()) sources_.emplace_back();
    Source& source = sources_[next_source_++];
    if (source.size < bytes) {
      if (source.bytes != nullptr) CheckCall(cudaFreeHost(source.bytes), "cudaFreeHost");
      CheckCall(cudaHostAlloc(&source.bytes, bytes, cudaHostAllocDefault), "cudaHostAlloc");
      source.size = bytes;
    }
    std::memcpy(source.bytes, host, bytes);
    CheckCall(cudaMemcpyAsync(device, source.bytes, bytes, cudaMemcpyHostToDevice, stream),
              "cudaMemcpyAsync to the device");
  }

 private:
  struct Source {
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
  std::vector<Source> sources_;
  size_t next_source_ = 0;
};

class CudaRuntime final : public DeviceRuntime {
 public:
  explicit CudaRuntime(int index)
      : blocks_({.allocate = &AllocateBlock, .release = &ReleaseBlock}) {
    CheckCall(cudaSetDevice(index), "cudaSetDevice");
    CheckCall(cudaStreamCreateWithFlags(&compute_stream, cudaStreamNonBlocking),
              "cudaStreamCreateWithFlags");
    captured_ = std::make_unique<CapturedWork>();
  }

  void* Allocate(size_t bytes) override { return blocks_.Allocate(bytes); }
  void Release(void* bytes, size_t size) override { blocks_.Release(bytes, size); }

  void CopyIn(void* device, const void* host, size_t bytes) override {
    if (bytes == 0) return;
    if (captured_->capturing()) return captured_->CopyIn(device, host, bytes, compute_stream);
    staging_.CopyIn(device, host, bytes, compute_stream);
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
  bool AllowTensorFloat32() override {
    SetFloat32Products(Float32Products::kTensorFloat32);
    return true;
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
  Staging staging_;
  std::unique_ptr<CapturedWork> captured_;
};

}  // namespace

std::unique_ptr<DeviceRuntime> MakeRuntime(int index) {
  return std::make_unique<CudaRuntime>(index);
}

cudaStream_t ComputeStream() { return compute_stream; }

}  // namespace tost::cuda
