// What a launch may ask for, and nvcc's translation of its kernel.
#ifndef TOST_TESTS_SIMT_LAUNCH_H_
#define TOST_TESTS_SIMT_LAUNCH_H_

#include <cstddef>
#include <memory>
#include <string>

namespace tost::simt {

inline constexpr size_t kSharedBytesByDefault = size_t{48} << 10;
inline constexpr size_t kSharedBytesAtMost = size_t{227} << 10;  // as on compute capability 9.0
inline constexpr int kThreadsAtMost = 1024;

// Declared and dynamic shared memory of a kernel together: what cudaFuncSetAttribute opted in to.
size_t SharedBytesAllowed(const void* kernel);

// Who runs kernels from nvcc's PTX in place of g++'s code (ptx_executor.cc).
struct PtxExecutor {
  // The program of the kernel with this mangled name, or null where no file has it.
  std::shared_ptr<const void> (*find)(const std::string& mangled_name);
  // Runs a thread; the parameters lie as nvcc lays them out.
  void (*run_thread)(const void* program, const unsigned char* parameters);
};
// Null where none is linked in. Set before main.
extern const PtxExecutor* ptx_executor;

}  // namespace tost::simt

#endif  // TOST_TESTS_SIMT_LAUNCH_H_
