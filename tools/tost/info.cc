// tost info
#include <cstdio>
#include <string>

#include "autograd/base/parallel.h"
#include "autograd/device_backend.h"
#include "ops/cpu/gemm.h"
#include "tools/tost/command_line.h"
#include "tools/tost/vector_instructions.h"

namespace tost {
namespace {

void PrintCuda() {
  const DeviceBackend* cuda = CudaBackend();
  if (cuda == nullptr) {
    std::printf("CUDA       absent: the CPU is the only device of this build\n");
    return;
  }
  const absl::StatusOr<int> count = cuda->device_count();
  if (!count.ok()) {
    const std::string why(count.status().message());
    std::printf("CUDA       built in, but not usable here: %s\n", why.c_str());
  } else if (*count == 0) {
    std::printf("CUDA       built in, but there is no device\n");
  } else {
    for (int i = 0; i < *count; ++i) {
      std::printf("CUDA       cuda:%d is %s\n", i, cuda->describe(i).c_str());
    }
  }
}

absl::Status PrintInfo() {
  std::printf("tost       %s (%s)\n", TOST_VERSION, TOST_REVISION);
  std::printf("compiler   %s, %s\n", TOST_COMPILER, TOST_BUILD_TYPE);
  std::printf("vectors    %s (-march=%s)\n", VectorInstructions(), TOST_MARCH);
  std::printf("threads    %d\n", ThreadCount());
  std::printf("OpenMP     %s\n",
              HasThreadPool() ? "found" : "absent: everything runs on one thread");
  std::printf("GEMM       %s\n", ops::cpu::GemmLibrary().c_str());
  PrintCuda();
  std::printf("MPI        absent: one process\n");
  std::printf("NCCL       absent: one GPU at most\n");
  return absl::OkStatus();
}

}  // namespace

void AddInfoCommand(CLI::App& app, Commands& commands) {
  Command& command = commands.emplace_back(
      app, "info", "What this binary is made of, and what is missing with the consequence",
      "tost info");
  command.set_run(&PrintInfo);
}

}  // namespace tost
