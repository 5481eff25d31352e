// The vector instructions that this binary was compiled for.
#ifndef TOST_TOOLS_TOST_VECTOR_INSTRUCTIONS_H_
#define TOST_TOOLS_TOST_VECTOR_INSTRUCTIONS_H_

namespace tost {

// "AVX-512", "AVX2", or "baseline" for what every CPU of the architecture has.
const char* VectorInstructions();

// Whether the CPU at hand has them; one that lacks them would end the program in the middle of a
// loop.
bool CpuHasVectorInstructions();

}  // namespace tost

#endif  // TOST_TOOLS_TOST_VECTOR_INSTRUCTIONS_H_
