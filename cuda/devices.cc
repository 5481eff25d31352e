#include "cuda/devices.h"

#include <cuda_runtime.h>

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tost::cuda {
namespace {

// An entry of CMAKE_CUDA_ARCHITECTURES: "90", "90-real", "90a-virtual".
struct Architecture {
  int capability = 0;  // 10 · major + minor; 0: not a number
  bool machine_code = true, intermediate = true;
};

Architecture Parse(absl::string_view text) {
  Architecture architecture;
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('-', 1));
  absl::string_view number = parts.first;
  while (!number.empty() && absl::ascii_isalpha(static_cast<unsigned char>(number.back()))) {
    number.remove_suffix(1);
  }
  if (!absl::SimpleAtoi(number, &architecture.capability)) architecture.capability = 0;
  if (parts.second == "real") architecture.intermediate = false;
  if (parts.second == "virtual") architecture.machine_code = false;
  return architecture;
}

bool HasCodeFor(const Architecture& architecture, int capability) {
  if (architecture.capability == 0) return true;
  if (architecture.capability > capability) return false;
  const bool same_generation = architecture.capability / 10 == capability / 10;
  return architecture.intermediate || (architecture.machine_code && same_generation);
}

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

absl::Status CheckCapability(const DeviceDescription& device, absl::string_view architectures) {
  const int capability = 10 * device.capability_major + device.capability_minor;
  for (const absl::string_view text : absl::StrSplit(architectures, ',')) {
    if (HasCodeFor(Parse(text), capability)) return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat(device.name, " has compute capability ", device.capability_major, ".",
                   device.capability_minor, ", but this program has code for ", architectures,
                   ": use --device cpu, or build with -DCMAKE_CUDA_ARCHITECTURES=", capability));
}

absl::string_view BuiltArchitectures() { return TOST_CUDA_ARCHITECTURES; }

}  // namespace tost::cuda
