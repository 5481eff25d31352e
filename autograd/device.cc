#include "autograd/device.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "absl/strings/str_cat.h"
#include "autograd/base/errors.h"

namespace tost {
namespace {

// Keeps released blocks by size class, because page faults of large fresh buffers cost a training
// step several per cent. A class is a power of two divided into eight steps: at most 12.5 % waste.
class CpuRuntime final : public DeviceRuntime {
 public:
  ~CpuRuntime() override {
    for (auto& [size, blocks] : free_) {
      for (void* block : blocks) std::free(block);
    }
  }

  void* Allocate(size_t bytes) override {
    const size_t size = SizeClass(bytes);
    const std::lock_guard lock(mutex_);
    void* block = TakeReleased(size);
    if (block == nullptr) {
      ++memory_.system_allocations;
      block = std::aligned_alloc(kAlignment, size);
      TOST_CHECK(block != nullptr) << "out of memory: the system refused " << size << " bytes with "
                                   << memory_.live_bytes << " bytes in use";
    }
    memory_.live_bytes += static_cast<int64_t>(size);
    memory_.peak_bytes = std::max(memory_.peak_bytes, memory_.live_bytes);
    return block;
  }

  void Release(void* block, size_t bytes) override {
    const size_t size = SizeClass(bytes);
    const std::lock_guard lock(mutex_);
    memory_.live_bytes -= static_cast<int64_t>(size);
    free_[size].push_back(block);
  }

  void CopyIn(void* device, const void* host, size_t bytes) override { Copy(device, host, bytes); }
  void CopyOut(void* host, const void* device, size_t bytes) override { Copy(host, device, bytes); }
  void Copy(void* to, const void* from, size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void FillZero(void* device, size_t bytes) override { std::memset(device, 0, bytes); }
  void Synchronize() override {}
  MemoryStatistics Memory() const override {
    const std::lock_guard lock(mutex_);
    return memory_;
  }
  void ResetPeakMemory() override {
    const std::lock_guard lock(mutex_);
    memory_.peak_bytes = memory_.live_bytes;
  }

 private:
  static constexpr size_t kAlignment = 64;

  static size_t SizeClass(size_t bytes) {
    constexpr size_t kSmallest = 512;
    if (bytes <= kSmallest) return kSmallest;
    const size_t step = std::bit_floor(bytes - 1) / 8;
    return (bytes + step - 1) / step * step;
  }

  // A released block of this size class, or null. The mutex is held.
  void* TakeReleased(size_t size) {
    std::vector<void*>& blocks = free_[size];
    if (blocks.empty()) return nullptr;
    void* block = blocks.back();
    blocks.pop_back();
    return block;
  }

  mutable std::mutex mutex_;
  std::map<size_t, std::vector<void*>> free_;
  MemoryStatistics memory_;
};

std::unique_ptr<DeviceRuntime>& Slot(DeviceType type) {
  // Never destroyed: tensors with static lifetime may outlive any order of destruction we choose.
  static auto* slots =
      new std::unique_ptr<DeviceRuntime>[kDeviceTypes] { std::make_unique<CpuRuntime>(), nullptr };
  return slots[static_cast<int>(type)];
}

}  // namespace

std::string Device::ToString() const {
  return type == DeviceType::kCpu ? "cpu" : absl::StrCat("cuda:", index);
}

DeviceRuntime& RuntimeOf(Device device) {
  const std::unique_ptr<DeviceRuntime>& runtime = Slot(device.type);
  TOST_CHECK(runtime != nullptr) << "device " << device << " is not installed";
  return *runtime;
}

void InstallRuntime(DeviceType type, std::unique_ptr<DeviceRuntime> runtime) {
  Slot(type) = std::move(runtime);
}

}  // namespace tost
