#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "autograd/base/errors.h"
#include "autograd/device_backend.h"
#include "cuda/blas_library.h"
#include "cuda/devices.h"
#include "cuda/install.h"

namespace tost {
namespace {

absl::Status Install(int index) {
  TOST_ASSIGN_OR_RETURN(const cuda::DeviceDescription device, cuda::Describe(index));
  TOST_RETURN_IF_ERROR(cuda::CheckCapability(device, cuda::BuiltArchitectures()));
  TOST_RETURN_IF_ERROR(cuda::OpenBlasLibrary());
  cuda::InstallCuda(index);
  return absl::OkStatus();
}

std::string Describe(int index) {
  const absl::StatusOr<cuda::DeviceDescription> device = cuda::Describe(index);
  if (!device.ok()) return std::string(device.status().message());
  return absl::StrFormat("%s, %.0f GiB, compute capability %d.%d", device->name,
                         static_cast<double>(device->memory_bytes) / (1 << 30),
                         device->capability_major, device->capability_minor);
}

}  // namespace

const DeviceBackend* CudaBackend() {
  static constexpr DeviceBackend kBackend{
      .device_count = &cuda::DeviceCount, .install = &Install, .describe = &Describe};
  return &kBackend;
}

}  // namespace tost
