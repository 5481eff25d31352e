#include "tests/cuda/executor.h"
#include "tests/simt/emulator.h"

namespace tost::executor {

bool IsAvailable() { return true; }
bool HasDouble() { return true; }
bool ChecksEveryAccess() { return simt::ChecksAccesses(); }
std::vector<std::string> ThreadOrders() {
  if (ChecksEveryAccess()) return {"random 1"};
  return {"forward", "reverse", "random 1", "random 2"};
}
void UseThreadOrder(const std::string& order) {
  simt::Options& options = simt::options();
  options.order = order == "forward"   ? simt::Order::kForward
                  : order == "reverse" ? simt::Order::kReverse
                                       : simt::Order::kRandom;
  options.seed = order == "random 2" ? 2 : 1;
}

}  // namespace tost::executor
