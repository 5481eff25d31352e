#include "tools/tost/vector_instructions.h"

namespace tost {

#if defined(__AVX512F__)
const char* VectorInstructions() { return "AVX-512"; }
bool CpuHasVectorInstructions() { return __builtin_cpu_supports("avx512f"); }
#elif defined(__AVX2__)
const char* VectorInstructions() { return "AVX2"; }
bool CpuHasVectorInstructions() { return __builtin_cpu_supports("avx2"); }
#else
const char* VectorInstructions() { return "baseline"; }
bool CpuHasVectorInstructions() { return true; }
#endif

}  // namespace tost
