// The CUDA devices of this machine, asked before any of them is used.
#ifndef TOST_CUDA_DEVICES_H_
#define TOST_CUDA_DEVICES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tost::cuda {

// How many there are. Unavailable, with CUDA's words, where the driver is missing or too old. The
// first of these calls loads the driver.
absl::StatusOr<int> DeviceCount();

struct DeviceDescription {
  std::string name;  // "NVIDIA H200"
  int capability_major = 0, capability_minor = 0;
  int multiprocessors = 0;
  int64_t memory_bytes = 0;
};
absl::StatusOr<DeviceDescription> Describe(int index);

// Whether this program has code for the device: compute capability 8.0 or newer. Otherwise
// FailedPrecondition, naming the device and both capabilities.
absl::Status CheckCapability(const DeviceDescription& device);

}  // namespace tost::cuda

#endif  // TOST_CUDA_DEVICES_H_
