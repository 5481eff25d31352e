#include "autograd/device.h"

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "autograd/base/errors.h"

namespace tost {
namespace {

class CpuRuntime final : public DeviceRuntime {
 public:
  void* Allocate(size_t bytes) override { return blocks_.Allocate(bytes); }
  void Release(void* block, size_t bytes) override { blocks_.Release(block, bytes); }
  void CopyIn(void* device, const void* host, size_t bytes) override { Copy(device, host, bytes); }
  void CopyOut(void* host, const void* device, size_t bytes) override { Copy(host, device, bytes); }
  void Copy(void* to, const void* from, size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void FillZero(void* device, size_t bytes) override { std::memset(device, 0, bytes); }
  void Synchronize() override {}
  MemoryStatistics Memory() const override { return blocks_.Memory(); }
  void ResetPeakMemory() override { blocks_.ResetPeakMemory(); }
  int64_t FreeBytes() const override {
    std::ifstream file("/proc/meminfo");
    std::string name;
    for (int64_t kibibytes = 0; file >> name >> kibibytes; file.ignore(16, '\n')) {
      if (name == "MemAvailable:") return kibibytes * 1024;
    }
    return -1;
  }

 private:
  static constexpr size_t kAlignment = 64;

  BlockCache blocks_{{.allocate = [](size_t size) { return std::aligned_alloc(kAlignment, size); },
                      .release = [](void* block) { std::free(block); }}};
};

std::unique_ptr<DeviceRuntime>& Slot(DeviceType type) {
  // Never destroyed: tensors with static lifetime may outlive any order of destruction we choose.
  static auto* slots =
      new std::unique_ptr<DeviceRuntime>[kDeviceTypes] { std::make_unique<CpuRuntime>(), nullptr };
  return slots[static_cast<int>(type)];
}

}  // namespace

std::string Device::ToString() const {
  switch (type) {
    case DeviceType::kCpu:
      return "cpu";
    case DeviceType::kCuda:
      return absl::StrCat("cuda:", index);
    case DeviceType::kCounting:
      return "counting";
  }
  return "?";
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
