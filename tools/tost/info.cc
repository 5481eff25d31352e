// tost info
#include <cstdio>

#include "autograd/base/parallel.h"
#include "ops/cpu/gemm.h"
#include "tools/tost/command_line.h"
#include "tools/tost/vector_instructions.h"

namespace tost {
namespace {

absl::Status PrintInfo() {
  std::printf("tost       %s (%s)\n", TOST_VERSION, TOST_REVISION);
  std::printf("compiler   %s, %s\n", TOST_COMPILER, TOST_BUILD_TYPE);
  std::printf("vectors    %s (-march=%s)\n", VectorInstructions(), TOST_MARCH);
  std::printf("threads    %d\n", ThreadCount());
  std::printf("OpenMP     %s\n",
              HasThreadPool() ? "found" : "absent: everything runs on one thread");
  std::printf("GEMM       %s\n", ops::cpu::GemmLibrary().c_str());
  std::printf("CUDA       absent: the CPU is the only device of this version\n");
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
