#include "tests/simt/launch.h"

#include <array>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "tests/simt/execution.h"
#include "tests/simt/report.h"
#include "tests/simt/runtime.h"

namespace tost::simt {
namespace {

auto& dynamic_shared_opt_in = *new std::unordered_map<const void*, size_t>;

struct PtxArguments {
  std::shared_ptr<const void> program;
  alignas(16) std::array<unsigned char, kParameterBytes> parameters{};

  static void RunThread(const void* arguments) {
    const auto* self = static_cast<const PtxArguments*>(arguments);
    ptx_executor->run_thread(self->program.get(), self->parameters.data());
  }
};

// Where nvcc has PTX of the kernel, it takes the place of what g++ made.
void TakePtx(KernelCall& call) {
  if (ptx_executor == nullptr) return;
  auto arguments = std::make_shared<PtxArguments>();
  arguments->program = ptx_executor->find(MangledName(call.kernel));
  if (arguments->program == nullptr) {
    MutableStatistics().without_ptx.insert(KernelName(call.kernel));
    return;
  }
  ++MutableStatistics().ptx_launches;
  call.pack(call.arguments.get(), arguments->parameters.data());
  call.argument_bytes = sizeof(PtxArguments);
  call.run_thread = &PtxArguments::RunThread;
  call.arguments = std::move(arguments);
}

cudaError_t CheckShape(const KernelCall& call) {
  constexpr unsigned kLargestX = 0x7fffffff, kLargestYZ = 65535, kLargestBlockZ = 64;
  const dim3 g = call.grid, b = call.block;
  const size_t threads = size_t{b.x} * b.y * b.z;
  if (threads == 0 || threads > kThreadsAtMost || b.z > kLargestBlockZ || g.x == 0 || g.y == 0 ||
      g.z == 0 || g.x > kLargestX || g.y > kLargestYZ || g.z > kLargestYZ) {
    return cudaErrorInvalidConfiguration;
  }
  const auto opted = dynamic_shared_opt_in.find(call.kernel);
  const size_t allowed =
      opted == dynamic_shared_opt_in.end() ? kSharedBytesByDefault : opted->second;
  return call.shared_bytes > allowed ? cudaErrorInvalidValue : cudaSuccess;
}

}  // namespace

const PtxExecutor* ptx_executor = nullptr;

size_t SharedBytesAllowed(const void* kernel) {
  return dynamic_shared_opt_in.contains(kernel) ? kSharedBytesAtMost : kSharedBytesByDefault;
}

void Launch(KernelCall call, cudaStream_t stream) {
  const ApiCall api;
  if (api.failed()) return;
  if (const cudaError_t status = CheckShape(call); status != cudaSuccess) {
    api.Return(status);
    return;
  }
  TakePtx(call);
  ++MutableStatistics().launches;
  const void* kernel = call.kernel;
  EnqueueOperation(stream, {.kind = OperationKind::kKernel,
                            .subject = kernel,
                            .run = [call = std::move(call)] { RunGrid(call); }});
}

extern "C" {

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  const ApiCall api;
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
    if (value < 0 || static_cast<size_t>(value) > kSharedBytesAtMost) {
      return api.Return(cudaErrorInvalidValue);
    }
    dynamic_shared_opt_in[kernel] = static_cast<size_t>(value);
  }
  return api.Return(cudaSuccess);
}

cudaError_t cudaFuncGetName(const char** name, const void* kernel) {
  const ApiCall api;
  static auto& names = *new std::map<const void*, std::string>;
  *name = names.try_emplace(kernel, KernelName(kernel)).first->second.c_str();
  return api.Return(cudaSuccess);
}

}  // extern "C"

}  // namespace tost::simt
