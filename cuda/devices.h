// The CUDA devices of this machine, asked before any of them is used.
#ifndef TOST_CUDA_DEVICES_H_
#define TOST_CUDA_DEVICES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

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

// Whether a program built for these architectures has code for the device: machine code of its
// generation ("80-real" runs on 8.0 to 8.9), or an intermediate one that is not newer
// ("100-virtual"; without a suffix it is both). Otherwise FailedPrecondition, naming the device and
// what there is code for. `architectures` is CMake's list with commas; "native" and other words are
// taken on trust.
absl::Status CheckCapability(const DeviceDescription& device, absl::string_view architectures);

// What this program was built for.
absl::string_view BuiltArchitectures();

}  // namespace tost::cuda

#endif  // TOST_CUDA_DEVICES_H_
