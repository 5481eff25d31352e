// Where no checker is linked in.
#include "tests/simt/emulator.h"

namespace tost::simt {

std::map<std::string, AccessCount> AccessCounts() { return {}; }
void ResetAccessCounts() {}

}  // namespace tost::simt
