#include "cuda/devices.h"

#include <cuda_runtime.h>

#include "absl/strings/str_cat.h"

namespace tost::cuda {
namespace {

constexpr int kOldestMajor = 8;

absl::Status AsStatus(cudaError_t status, absl::string_view call) {
  if (status == cudaSuccess) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("CUDA: ", call, ": ", cudaGetErrorString(status), " (",
                                             cudaGetErrorName(status), ")"));
}

}  // namespace

absl::StatusOr<int> DeviceCount() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorNoDevice) return 0;
  if (absl::Status failed = AsStatus(status, "cudaGetDeviceCount"); !failed.ok()) return failed;
  return count;
}

absl::StatusOr<DeviceDescription> Describe(int index) {
  cudaDeviceProp properties{};
  absl::Status failed =
      AsStatus(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  if (!failed.ok()) return failed;
  return DeviceDescription{.name = properties.name,
                           .capability_major = properties.major,
                           .capability_minor = properties.minor,
                           .multiprocessors = properties.multiProcessorCount,
                           .memory_bytes = static_cast<int64_t>(properties.totalGlobalMem)};
}

absl::Status CheckCapability(const DeviceDescription& device) {
  if (device.capability_major >= kOldestMajor) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(device.name, " has compute capability ", device.capability_major, ".",
                   device.capability_minor, "; tost needs ", kOldestMajor,
                   ".0 or newer (A100 and later): use --device cpu"));
}

}  // namespace tost::cuda
