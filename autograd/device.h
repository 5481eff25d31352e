// Devices, and what the core asks of one: memory, copies, synchronisation.
#ifndef TOST_AUTOGRAD_DEVICE_H_
#define TOST_AUTOGRAD_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>

#include "autograd/base/block_cache.h"
#include "autograd/base/errors.h"

namespace tost {

// kCounting computes nothing and has no memory: roofline/ counts there what a step would cost.
enum class DeviceType : uint8_t { kCpu, kCuda, kCounting };
inline constexpr int kDeviceTypes = 3;

// One process drives one device.
struct Device {
  DeviceType type = DeviceType::kCpu;
  int index = 0;

  static Device Cpu() { return {}; }
  std::string ToString() const;  // "cpu", "cuda:0", "counting"
  friend bool operator==(const Device&, const Device&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Device& device) {
    return out << device.ToString();
  }
};

// What a device does for the core. The CPU's is built in; others are installed by `main`.
class DeviceRuntime {
 public:
  virtual ~DeviceRuntime() = default;
  // 64-byte aligned, contents arbitrary; null when the device has no such block left.
  virtual void* Allocate(size_t bytes) = 0;
  virtual void Release(void* bytes, size_t size) = 0;
  // The host's memory may be reused afterwards; the device sees the bytes in what it runs next.
  virtual void CopyIn(void* device, const void* host, size_t bytes) = 0;
  virtual void CopyOut(void* host, const void* device, size_t bytes) = 0;  // synchronises
  virtual void Copy(void* to, const void* from, size_t bytes) = 0;         // device to device
  virtual void FillZero(void* device, size_t bytes) = 0;
  virtual void Synchronize() = 0;
  // What is queued between the two calls is gathered and then launched at once, which spares the
  // device the pauses between small kernels; only for devices that can. Nothing in between may
  // wait for the device.
  virtual bool CanCapture() const { return false; }
  virtual void BeginCapture() { TOST_CHECK(false) << "this device cannot capture work"; }
  virtual void LaunchCapture() { TOST_CHECK(false) << "this device cannot capture work"; }
  // Whether products of float32 may round their operands to TF32 (10 bits of mantissa), which
  // tensor cores multiply several times faster. Returns false where the device has no such thing.
  virtual bool AllowTensorFloat32() { return false; }
  virtual MemoryStatistics Memory() const = 0;
  virtual void ResetPeakMemory() = 0;  // peak := live
  // What the device could still give, besides what is kept for reuse; -1: it does not say.
  virtual int64_t FreeBytes() const { return -1; }
  // Whether what is written can be read back; where not, nobody need compute initial values.
  virtual bool KeepsValues() const { return true; }
};

DeviceRuntime& RuntimeOf(Device device);  // CHECKs that the device is installed
void InstallRuntime(DeviceType type, std::unique_ptr<DeviceRuntime> runtime);

}  // namespace tost

#endif  // TOST_AUTOGRAD_DEVICE_H_
