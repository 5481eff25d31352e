#include <cuda_runtime.h>

#include "tests/cuda/executor.h"

namespace tost::executor {

bool IsAvailable() {
  int devices = 0;
  return cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
}
bool HasDouble() { return false; }
bool ChecksEveryAccess() { return false; }
// A GPU orders threads as it likes, each time anew.
std::vector<std::string> ThreadOrders() { return {"first run", "second run"}; }
void UseThreadOrder(const std::string&) {}

}  // namespace tost::executor
