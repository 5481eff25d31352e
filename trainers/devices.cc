#include "trainers/devices.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "autograd/base/errors.h"
#include "autograd/base/log.h"

namespace tost::train {
namespace {

absl::StatusOr<Device> UseFirst(const DeviceBackend* cuda) {
  if (cuda == nullptr) return Device::Cpu();
  const absl::StatusOr<int> count = cuda->device_count();
  if (!count.ok() || *count == 0) return Device::Cpu();
  const absl::Status installed = cuda->install(0);
  if (installed.ok()) return Device{DeviceType::kCuda, 0};
  LogWarning(absl::StrCat("cuda:0 cannot be used, computing on the CPU: ", installed.message()));
  return Device::Cpu();
}

absl::StatusOr<Device> UseCuda(int index, const DeviceBackend* cuda) {
  const Device device{DeviceType::kCuda, index};
  if (cuda == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("--device ", device.ToString(),
                     ": this tost was built without CUDA; use --device cpu, or rebuild where nvcc "
                     "is installed"));
  }
  const absl::StatusOr<int> count = cuda->device_count();
  if (!count.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--device ", device.ToString(), ": ",
                                                   count.status().message(),
                                                   "; use --device cpu, or install the driver"));
  }
  if (index >= *count) {
    return absl::InvalidArgumentError(
        *count == 0 ? absl::StrCat("--device ", device.ToString(), ": there is no CUDA device here")
                    : absl::StrCat("--device ", device.ToString(), ": there ",
                                   *count == 1 ? "is 1 CUDA device"
                                               : absl::StrCat("are ", *count, " CUDA devices"),
                                   ", counted from cuda:0"));
  }
  const absl::Status installed = cuda->install(index);
  if (installed.ok()) return device;
  return absl::InvalidArgumentError(
      absl::StrCat("--device ", device.ToString(), ": ", installed.message()));
}

}  // namespace

absl::StatusOr<Device> UseDevice(absl::string_view name, const DeviceBackend* cuda) {
  if (name == "cpu") return Device::Cpu();
  if (name == "auto") return UseFirst(cuda);
  if (name == "cuda") return UseCuda(0, cuda);
  absl::string_view digits = name;
  int index = 0;
  if (absl::ConsumePrefix(&digits, "cuda:") && absl::SimpleAtoi(digits, &index) && index >= 0) {
    return UseCuda(index, cuda);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--device is auto, cpu, cuda or cuda:<number>, not '", name, "'"));
}

absl::Status AllowTensorFloat32(Device device, bool asked) {
  if (!asked || RuntimeOf(device).AllowTensorFloat32()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--tf32 needs a CUDA device; this run computes on ", device.ToString()));
}

}  // namespace tost::train
