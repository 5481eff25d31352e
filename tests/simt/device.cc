// The emulated device itself, and errors as CUDA reports them.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string_view>

#include "tests/simt/checks.h"
#include "tests/simt/execution.h"
#include "tests/simt/launch.h"
#include "tests/simt/report.h"
#include "tests/simt/runtime.h"

namespace tost::simt {
namespace {

// A made-up device with the limits of compute capability 9.0.
constexpr char kName[] = "emulated";
constexpr int kMajor = 9, kMinor = 0, kMultiprocessors = 4;

struct ErrorText {
  cudaError_t code;
  const char* name;
  const char* text;
};
#define TOST_SIMT_ERROR(code, text) \
  { code, #code, text }
constexpr ErrorText kErrors[] = {
    TOST_SIMT_ERROR(cudaSuccess, "no error"),
    TOST_SIMT_ERROR(cudaErrorInvalidValue, "invalid argument"),
    TOST_SIMT_ERROR(cudaErrorMemoryAllocation, "out of memory"),
    TOST_SIMT_ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    TOST_SIMT_ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    TOST_SIMT_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    TOST_SIMT_ERROR(cudaErrorIllegalState, "the operation cannot be performed in this state"),
    TOST_SIMT_ERROR(cudaErrorNotReady, "device not ready"),
    TOST_SIMT_ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    TOST_SIMT_ERROR(cudaErrorNotSupported, "operation not supported"),
    TOST_SIMT_ERROR(cudaErrorStreamCaptureUnsupported,
                    "operation not permitted when stream is capturing"),
    TOST_SIMT_ERROR(cudaErrorStreamCaptureInvalidated,
                    "operation failed due to a previous error during capture"),
    TOST_SIMT_ERROR(cudaErrorStreamCaptureUnmatched, "capture was not initiated in this stream"),
    TOST_SIMT_ERROR(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    TOST_SIMT_ERROR(cudaErrorStreamCaptureIsolation,
                    "dependency created on uncaptured work in another stream"),
    TOST_SIMT_ERROR(cudaErrorCapturedEvent,
                    "operation not permitted on an event last recorded in a capturing stream"),
    TOST_SIMT_ERROR(cudaErrorGraphExecUpdateFailure,
                    "the graph update was not performed because it included changes which "
                    "violated constraints specific to instantiated graph update"),
};
#undef TOST_SIMT_ERROR

const ErrorText* TextOf(cudaError_t code) {
  for (const ErrorText& error : kErrors) {
    if (error.code == code) return &error;
  }
  return nullptr;
}

std::recursive_mutex& api_mutex = *new std::recursive_mutex;
cudaError_t last_error = cudaSuccess;

Options OptionsFromEnvironment() {
  Options preset;
  if (const char* order = std::getenv("TOST_SIMT_ORDER"); order != nullptr) {
    const std::string_view word = order;
    preset.order = word == "forward"   ? Order::kForward
                   : word == "reverse" ? Order::kReverse
                                       : Order::kRandom;
    if (preset.order == Order::kRandom) preset.seed = std::strtoull(order, nullptr, 10);
  }
  if (const char* mebibytes = std::getenv("TOST_SIMT_MEMORY_MIB"); mebibytes != nullptr) {
    preset.device_memory = size_t{std::strtoull(mebibytes, nullptr, 10)} << 20;
  }
  return preset;
}

}  // namespace

Options& options() {
  static Options current = OptionsFromEnvironment();
  return current;
}

bool ChecksAccesses() { return checks != nullptr; }

Statistics& MutableStatistics() {
  static auto& all = *new Statistics;
  return all;
}
const Statistics& statistics() { return MutableStatistics(); }

ApiCall::ApiCall() : lock_(api_mutex), failed_(DefectIsKept()) {
  if (IsExecuting()) ReportDefect("queued work calls CUDA, which would wait for itself");
}

cudaError_t ApiCall::Return(cudaError_t status) const {
  if (DefectIsKept()) status = cudaErrorLaunchFailure;
  if (status != cudaSuccess) last_error = status;
  return status;
}

extern "C" {

cudaError_t cudaGetLastError() {
  const ApiCall api;
  const cudaError_t error = api.failed() ? cudaErrorLaunchFailure : last_error;
  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError() {
  const ApiCall api;
  return api.failed() ? cudaErrorLaunchFailure : last_error;
}

const char* cudaGetErrorString(cudaError_t code) {
  const ErrorText* error = TextOf(code);
  return error != nullptr ? error->text : "an error that the emulated device does not know";
}

const char* cudaGetErrorName(cudaError_t code) {
  const ErrorText* error = TextOf(code);
  return error != nullptr ? error->name : "cudaErrorUnknown";
}

cudaError_t cudaGetDeviceCount(int* count) {
  const ApiCall api;
  *count = 1;
  return api.Return(cudaSuccess);
}

cudaError_t cudaSetDevice(int device) {
  const ApiCall api;
  return api.Return(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaGetDevice(int* device) {
  const ApiCall api;
  *device = 0;
  return api.Return(cudaSuccess);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const ApiCall api;
  if (device != 0) return api.Return(cudaErrorInvalidDevice);
  *properties = {};
  std::memcpy(properties->name, kName, sizeof(kName));
  properties->major = kMajor;
  properties->minor = kMinor;
  properties->multiProcessorCount = kMultiprocessors;
  properties->totalGlobalMem = options().device_memory;
  properties->sharedMemPerBlock = kSharedBytesByDefault;
  properties->sharedMemPerBlockOptin = kSharedBytesAtMost;
  properties->maxThreadsPerBlock = kThreadsAtMost;
  properties->warpSize = static_cast<int>(kWarpSize);
  return api.Return(cudaSuccess);
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  const ApiCall api;
  if (device != 0) return api.Return(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = kMajor;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = kMinor;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = kMultiprocessors;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(kSharedBytesAtMost);
      break;
    default:
      return api.Return(cudaErrorNotSupported);
  }
  return api.Return(cudaSuccess);
}

}  // extern "C"

}  // namespace tost::simt
