// What a program knows of a kind of device before it uses one.
#ifndef TOST_AUTOGRAD_DEVICE_BACKEND_H_
#define TOST_AUTOGRAD_DEVICE_BACKEND_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tost {

struct DeviceBackend {
  // How many devices there are; an error, with the driver's words, where there is no driver.
  absl::StatusOr<int> (*device_count)();
  // Makes device `index` of them usable: its runtime and all kernels. Called once. An error where
  // the device cannot run this program.
  absl::Status (*install)(int index);
  std::string (*describe)(int index);  // "NVIDIA H200, 139 GiB", or why it cannot be told
};

// The CUDA backend, or null. Defined twice, by the library of the CUDA backend and by one that
// stands for its absence: which one a program is linked with decides what devices it has.
const DeviceBackend* CudaBackend();

}  // namespace tost

#endif  // TOST_AUTOGRAD_DEVICE_BACKEND_H_
