#include "roofline/counting_device.h"

#include <cstring>
#include <memory>
#include <utility>

#include "autograd/base/errors.h"
#include "roofline/counting_kernels.h"

namespace tost::roofline {
namespace {

std::vector<Launch>& Launches() {
  static auto* launches = new std::vector<Launch>;
  return *launches;
}

// Addresses that nobody else has, so that a tensor's pointer is never null and blocks never meet.
void* NextAddress(size_t bytes) {
  constexpr uintptr_t kFirst = uintptr_t{1} << 60;
  constexpr size_t kAlignment = 64;
  static uintptr_t next = kFirst;
  const uintptr_t address = next;
  next += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return reinterpret_cast<void*>(address);
}

class CountingRuntime final : public DeviceRuntime {
 public:
  void* Allocate(size_t bytes) override { return blocks_.Allocate(bytes); }
  void Release(void* block, size_t bytes) override { blocks_.Release(block, bytes); }
  void CopyIn(void*, const void*, size_t) override {}
  void CopyOut(void* host, const void*, size_t bytes) override {
    if (bytes > 0) std::memset(host, 0, bytes);
  }
  void Copy(void*, const void*, size_t bytes) override {
    const auto count = static_cast<int64_t>(bytes);
    Record("copy", {.bytes_read = count, .bytes_written = count});
  }
  void FillZero(void*, size_t bytes) override {
    Record("fill", {.bytes_written = static_cast<int64_t>(bytes)});
  }
  void Synchronize() override {}
  MemoryStatistics Memory() const override { return blocks_.Memory(); }
  void ResetPeakMemory() override { blocks_.ResetPeakMemory(); }
  bool KeepsValues() const override { return false; }

 private:
  // The size classes of every other device: what is counted is what they would hold.
  BlockCache blocks_{{.allocate = &NextAddress, .release = [](void*) {}}};
};

}  // namespace

Traffic& Traffic::operator+=(const Traffic& other) {
  bytes_read += other.bytes_read;
  bytes_written += other.bytes_written;
  bfloat16_products += other.bfloat16_products;
  float32_products += other.float32_products;
  vector_flops += other.vector_flops;
  return *this;
}

Device CountingDevice() {
  static const bool installed = [] {
    InstallRuntime(DeviceType::kCounting, std::make_unique<CountingRuntime>());
    InstallCountingKernels();
    return true;
  }();
  TOST_CHECK(installed);
  return {DeviceType::kCounting, 0};
}

void Record(std::string kernel, const Traffic& traffic) {
  Launches().push_back({std::move(kernel), traffic});
}

std::vector<Launch> TakeLaunches() { return std::exchange(Launches(), {}); }

}  // namespace tost::roofline
