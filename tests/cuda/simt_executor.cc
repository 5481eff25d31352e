#include "tests/cuda/executor.h"
#include "tests/simt/simt.h"

namespace tost::executor {

bool IsAvailable() { return true; }
bool HasDouble() { return true; }
bool ChecksEveryAccess() { return simt::checks_accesses(); }
std::vector<std::string> ThreadOrders() {
  if (ChecksEveryAccess()) return {"random 1"};
  return {"forward", "reverse", "random 1", "random 2"};
}
void UseThreadOrder(const std::string& order) {
  simt::options& options = simt::opts();
  options.schedule = order == "forward"   ? simt::order::forward
                     : order == "reverse" ? simt::order::reverse
                                          : simt::order::random;
  options.seed = order == "random 2" ? 2 : 1;
}

}  // namespace tost::executor
