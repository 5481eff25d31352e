// Which device a program computes on.
#ifndef TOST_TRAINERS_DEVICES_H_
#define TOST_TRAINERS_DEVICES_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "autograd/device.h"
#include "autograd/device_backend.h"

namespace tost::train {

// The device that --device names, ready for use:
//   cpu            asks `cuda` nothing
//   cuda, cuda:2   a device of `cuda`
//   auto           the first of `cuda` that can be used, or else the CPU; a device that is there
//   and
//                  cannot be used is a warning
// `cuda` is null where the program was built without it. InvalidArgument, one line: another name,
// no CUDA in the build, no driver (in its own words), no device of that number, one that cannot run
// this program.
absl::StatusOr<Device> UseDevice(absl::string_view name, const DeviceBackend* cuda);

// Lets the device multiply float32 through TF32 where `asked`; InvalidArgument where it cannot.
absl::Status AllowTensorFloat32(Device device, bool asked);

}  // namespace tost::train

#endif  // TOST_TRAINERS_DEVICES_H_
