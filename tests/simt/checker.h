// The access checker. Kernels are compiled with -fsanitize=thread, which puts a call before every
// load and store; the program is linked with our own functions of those names instead of libtsan's
// (checker_callbacks.cc), so that each access arrives here with its address.
#ifndef TOST_TESTS_SIMT_CHECKER_H_
#define TOST_TESTS_SIMT_CHECKER_H_

#include <cstddef>

namespace tost::simt {

enum class Access { kRead, kWrite, kAtomic };

// Checks an access of the running thread of a kernel; accesses of the host pass. Named are: races
// within a block, between blocks and between operations that no stream, event or wait orders;
// addresses outside of tensors and shared arrays; bytes that nobody has written; the stack of
// another thread; host memory; misalignment.
void CheckAccess(const void* address, size_t bytes, Access access, const void* site);

}  // namespace tost::simt

#endif  // TOST_TESTS_SIMT_CHECKER_H_
