#include "autograd/base/block_cache.h"

#include <algorithm>
#include <bit>

namespace tost {
namespace {

size_t SizeClass(size_t bytes) {
  constexpr size_t kSmallest = 512;
  if (bytes <= kSmallest) return kSmallest;
  const size_t step = std::bit_floor(bytes - 1) / 8;
  return (bytes + step - 1) / step * step;
}

}  // namespace

void* BlockCache::Allocate(size_t bytes) {
  const size_t size = SizeClass(bytes);
  const std::lock_guard lock(mutex_);
  void* block = TakeReleased(size);
  if (block == nullptr) {
    ++memory_.system_allocations;
    block = system_.allocate(size);
    if (block == nullptr) {
      ReleaseUnused();
      block = system_.allocate(size);
    }
    if (block == nullptr) return nullptr;
  }
  memory_.live_bytes += static_cast<int64_t>(size);
  memory_.peak_bytes = std::max(memory_.peak_bytes, memory_.live_bytes);
  return block;
}

void BlockCache::Release(void* block, size_t bytes) {
  const size_t size = SizeClass(bytes);
  const std::lock_guard lock(mutex_);
  memory_.live_bytes -= static_cast<int64_t>(size);
  free_[size].push_back(block);
}

MemoryStatistics BlockCache::Memory() const {
  const std::lock_guard lock(mutex_);
  return memory_;
}

void BlockCache::ResetPeakMemory() {
  const std::lock_guard lock(mutex_);
  memory_.peak_bytes = memory_.live_bytes;
}

void BlockCache::ReleaseUnused() {
  for (auto& [size, blocks] : free_) {
    for (void* block : blocks) system_.release(block);
  }
  free_.clear();
}

void* BlockCache::TakeReleased(size_t size) {
  std::vector<void*>& blocks = free_[size];
  if (blocks.empty()) return nullptr;
  void* block = blocks.back();
  blocks.pop_back();
  return block;
}

}  // namespace tost
