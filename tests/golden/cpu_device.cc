#include "tests/golden/golden.h"

namespace tost::golden {

Device TestDevice() { return Device::Cpu(); }

}  // namespace tost::golden
