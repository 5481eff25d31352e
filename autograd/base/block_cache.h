// Released blocks of memory kept for reuse, by size class: the allocator of every device.
#ifndef TOST_AUTOGRAD_BASE_BLOCK_CACHE_H_
#define TOST_AUTOGRAD_BASE_BLOCK_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace tost {

// Bytes that this process holds on a device. `system_allocations` counts the requests that reached
// the operating system (or driver); it stands still once a training step has been seen.
struct MemoryStatistics {
  int64_t live_bytes = 0;
  int64_t peak_bytes = 0;
  int64_t system_allocations = 0;
};

// Page faults of large fresh buffers cost a training step on the CPU several per cent, and a call
// of the driver stops a GPU. A size class is a power of two divided into eight steps: at most 12.5
// % waste.
class BlockCache {
 public:
  struct System {
    void* (*allocate)(size_t bytes);  // null: there is no such block left
    void (*release)(void* block);
  };

  explicit BlockCache(const System& system) : system_(system) {}
  ~BlockCache() { ReleaseUnused(); }
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  // Null when even after releasing every unused block the system refuses.
  void* Allocate(size_t bytes);
  void Release(void* block, size_t bytes);
  MemoryStatistics Memory() const;
  void ResetPeakMemory();  // peak := live

 private:
  void ReleaseUnused();
  void* TakeReleased(size_t size);  // or null

  const System system_;
  mutable std::mutex mutex_;
  std::map<size_t, std::vector<void*>> free_;
  MemoryStatistics memory_;
};

}  // namespace tost

#endif  // TOST_AUTOGRAD_BASE_BLOCK_CACHE_H_
