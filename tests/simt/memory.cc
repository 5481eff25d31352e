#include "tests/simt/memory.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>

#include "tests/simt/checks.h"
#include "tests/simt/report.h"
#include "tests/simt/runtime.h"

extern "C" {
// Present in programs under AddressSanitizer.
void __asan_poison_memory_region(const void* begin, size_t bytes) __attribute__((weak));
void __asan_unpoison_memory_region(const void* begin, size_t bytes) __attribute__((weak));
}

namespace tost::simt {
namespace {

constexpr int kNaNByte = 0xff;
constexpr size_t kDeviceAlignment = 256, kPinnedAlignment = 4096;

// Never destroyed: what lives as long as the process may still give memory back.
using Blocks = std::map<const char*, MemoryBlock>;
Blocks& device_blocks = *new Blocks;
Blocks& pinned_blocks = *new Blocks;
size_t device_bytes = 0;  // allocated

const MemoryBlock* Find(const Blocks& blocks, const void* address, size_t slack) {
  const char* p = static_cast<const char*>(address);
  auto after = blocks.upper_bound(p);
  if (after == blocks.begin()) return nullptr;
  const MemoryBlock& block = std::prev(after)->second;
  return p < block.begin + block.capacity + slack ? &block : nullptr;
}

bool IsOnDevice(const void* begin, size_t bytes) {
  const MemoryBlock* block = DeviceBlockAt(begin);
  return block != nullptr &&
         static_cast<const char*>(begin) + bytes <= block->begin + block->capacity;
}

void* AllocateBlock(Blocks& blocks, size_t alignment, size_t bytes) {
  char* begin = AllocateWithGap(alignment, bytes);
  if (begin != nullptr) blocks[begin] = {begin, bytes, bytes};
  return begin;
}

void CheckInside(const void* begin, size_t bytes, const char* what) {
  const MemoryBlock* block = DeviceBlockAt(begin);
  const char* end = static_cast<const char*>(begin) + bytes;
  if (block == nullptr) return ReportDefect(std::string(what) + " host memory, not the device's");
  if (end > block->begin + block->bytes) {
    ReportDefect(std::string(what) + " " + std::to_string(end - block->begin - block->bytes) +
                 " bytes past the end of a tensor of " + std::to_string(block->bytes) + " bytes");
  }
}

struct CopyRequest {
  void* to;
  const void* from;
  size_t bytes;
  bool to_device, from_device;
  uint64_t fingerprint;  // of host memory, when queued
};

uint64_t Fingerprint(const void* begin, size_t bytes) {
  return std::hash<std::string_view>()({static_cast<const char*>(begin), bytes});
}

void Run(const CopyRequest& copy) {
  if (copy.from_device) {
    DeviceReads(copy.from, copy.bytes);
  } else if (Fingerprint(copy.from, copy.bytes) != copy.fingerprint) {
    ReportDefect(
        "the host writes to memory that cudaMemcpyAsync has not read yet: wait for the copy's "
        "event first");
  }
  std::memmove(copy.to, copy.from, copy.bytes);
  if (copy.to_device) DeviceWrites(copy.to, copy.bytes);
}

// Host memory is read or written when the copy's turn comes, be it pinned or not: CUDA allows both
// that and an early one.
cudaError_t Copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                 cudaStream_t stream) {
  auto copy = std::make_shared<CopyRequest>(CopyRequest{to, from, bytes, false, false, 0});
  copy->to_device = DeviceBlockAt(to) != nullptr;
  copy->from_device = DeviceBlockAt(from) != nullptr;
  const bool wants_to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool wants_from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (kind != cudaMemcpyDefault &&
      (copy->to_device != wants_to_device || copy->from_device != wants_from_device)) {
    return cudaErrorInvalidValue;
  }
  if ((copy->to_device && !IsOnDevice(to, bytes)) ||
      (copy->from_device && !IsOnDevice(from, bytes))) {
    return cudaErrorInvalidValue;
  }
  const auto take_fingerprint = [copy] {
    if (!copy->from_device) copy->fingerprint = Fingerprint(copy->from, copy->bytes);
  };
  EnqueueOperation(
      stream,
      {.kind = OperationKind::kCopy, .run = [copy] { Run(*copy); }, .queued = take_fingerprint});
  return cudaSuccess;
}

cudaError_t Fill(void* begin, int byte, size_t bytes, cudaStream_t stream) {
  if (!IsOnDevice(begin, bytes)) return cudaErrorInvalidValue;
  EnqueueOperation(stream, {.kind = OperationKind::kFill, .run = [begin, byte, bytes] {
                              std::memset(begin, byte, bytes);
                              DeviceWrites(begin, bytes);
                            }});
  return cudaSuccess;
}

void GiveTo(MemoryBlock& block, size_t bytes) {
  block.bytes = bytes;
  if (__asan_unpoison_memory_region != nullptr) {
    __asan_unpoison_memory_region(block.begin, block.capacity);
  }
  std::memset(block.begin, kNaNByte, block.capacity);
  if (__asan_poison_memory_region != nullptr) {
    __asan_poison_memory_region(block.begin + bytes, block.capacity - bytes);
  }
  if (checks != nullptr) checks->forget(block.begin, block.capacity);
}

}  // namespace

char* AllocateWithGap(size_t alignment, size_t bytes) {
  void* begin = nullptr;
  // AddressSanitizer has gaps of its own, which it watches.
  const size_t gap = __asan_poison_memory_region != nullptr ? 1 : kGap;
  if (posix_memalign(&begin, alignment, bytes > 0 && gap == 1 ? bytes : bytes + gap) != 0) {
    return nullptr;
  }
  return static_cast<char*>(begin);
}

const MemoryBlock* DeviceBlockAt(const void* address, size_t slack) {
  return Find(device_blocks, address, slack);
}
const MemoryBlock* PinnedBlockAt(const void* address) { return Find(pinned_blocks, address, 0); }

void DeviceReads(const void* begin, size_t bytes) {
  if (bytes == 0) return;
  CheckInside(begin, bytes, "a copy or host library reads");
  if (checks != nullptr) checks->read(begin, bytes);
}

void DeviceWrites(void* begin, size_t bytes) {
  if (bytes == 0) return;
  CheckInside(begin, bytes, "a copy or host library writes");
  if (checks != nullptr) checks->write(begin, bytes);
}

void HandOut(void* begin, size_t bytes, cudaStream_t stream) {
  if (begin == nullptr) return;
  const ApiCall api;
  EnqueueOperation(stream, {.run = [begin, bytes] {
                     const auto found = device_blocks.find(static_cast<char*>(begin));
                     if (found != device_blocks.end()) GiveTo(found->second, bytes);
                   }});
}

extern "C" {

cudaError_t cudaMalloc(void** begin, size_t bytes) {
  const ApiCall api;
  if (InvalidateStrictCaptures()) return api.Return(cudaErrorStreamCaptureUnsupported);
  if (device_bytes + bytes > options().device_memory) return api.Return(cudaErrorMemoryAllocation);
  *begin = AllocateBlock(device_blocks, kDeviceAlignment, bytes);
  if (*begin == nullptr) return api.Return(cudaErrorMemoryAllocation);
  device_bytes += bytes;
  GiveTo(device_blocks[static_cast<char*>(*begin)], bytes);
  return api.Return(cudaSuccess);
}

cudaError_t cudaFree(void* begin) {
  const ApiCall api;
  if (begin == nullptr) return api.Return(cudaSuccess);
  if (InvalidateStrictCaptures()) return api.Return(cudaErrorStreamCaptureUnsupported);
  const auto found = device_blocks.find(static_cast<char*>(begin));
  if (found == device_blocks.end()) return api.Return(cudaErrorInvalidValue);
  DrainAllStreams();
  device_bytes -= found->second.capacity;
  GiveTo(found->second, found->second.capacity);
  device_blocks.erase(found);
  std::free(begin);
  return api.Return(cudaSuccess);
}

cudaError_t cudaHostAlloc(void** begin, size_t bytes, unsigned) {
  const ApiCall api;
  if (InvalidateStrictCaptures()) return api.Return(cudaErrorStreamCaptureUnsupported);
  *begin = AllocateBlock(pinned_blocks, kPinnedAlignment, bytes);
  return api.Return(*begin == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}

cudaError_t cudaFreeHost(void* begin) {
  const ApiCall api;
  if (begin == nullptr) return api.Return(cudaSuccess);
  if (pinned_blocks.erase(static_cast<char*>(begin)) == 0) {
    return api.Return(cudaErrorInvalidValue);
  }
  DrainAllStreams();
  std::free(begin);
  return api.Return(cudaSuccess);
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const ApiCall api;
  *total = options().device_memory;
  *free = *total - device_bytes;
  return api.Return(cudaSuccess);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const ApiCall api;
  return api.Return(api.failed() ? cudaSuccess : Copy(to, from, bytes, kind, stream));
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  const ApiCall api;
  const cudaError_t status = api.failed() ? cudaSuccess : Copy(to, from, bytes, kind, nullptr);
  DrainStream(nullptr);
  return api.Return(status);
}

cudaError_t cudaMemsetAsync(void* begin, int byte, size_t bytes, cudaStream_t stream) {
  const ApiCall api;
  return api.Return(api.failed() ? cudaSuccess : Fill(begin, byte, bytes, stream));
}

cudaError_t cudaMemset(void* begin, int byte, size_t bytes) {
  const ApiCall api;
  const cudaError_t status = api.failed() ? cudaSuccess : Fill(begin, byte, bytes, nullptr);
  DrainStream(nullptr);
  return api.Return(status);
}

}  // extern "C"

}  // namespace tost::simt
