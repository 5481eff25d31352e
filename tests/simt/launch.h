// What a launch may ask for, and nvcc's translation of its kernel.
#ifndef TOST_TESTS_SIMT_LAUNCH_H_
#define TOST_TESTS_SIMT_LAUNCH_H_

#include <cstddef>

namespace tost::simt {

inline constexpr size_t kSharedBytesByDefault = size_t{48} << 10;
inline constexpr size_t kSharedBytesAtMost = size_t{227} << 10;  // as on compute capability 9.0
inline constexpr int kThreadsAtMost = 1024;

// Declared and dynamic shared memory of a kernel together: what cudaFuncSetAttribute opted in to.
size_t SharedBytesAllowed(const void* kernel);

// One per kernel in the output of ptx_to_cpp.py: launches of the kernel with this mangled name run
// it instead.
struct PtxKernel {
  PtxKernel(const char* mangled_name, void (*run_thread)(const unsigned char* parameters));
};

}  // namespace tost::simt

#endif  // TOST_TESTS_SIMT_LAUNCH_H_
