#include "tests/cuda/device_test.h"
#include "tests/golden/golden.h"

namespace tost::golden {

Device TestDevice() { return CudaDevice(); }

}  // namespace tost::golden
