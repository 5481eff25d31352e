// Device memory and pinned host memory of the emulated device.
#ifndef TOST_TESTS_SIMT_MEMORY_H_
#define TOST_TESTS_SIMT_MEMORY_H_

#include <cstddef>

namespace tost::simt {

// Unused bytes behind everything that is allocated, so that small overruns reach no neighbour and
// are named.
inline constexpr size_t kGap = 4096;
// Null when there is no more. To be given back with std::free.
char* AllocateWithGap(size_t alignment, size_t bytes);

struct MemoryBlock {
  char* begin = nullptr;
  size_t capacity = 0;  // what was allocated
  size_t bytes = 0;     // what belongs to a tensor: see HandOut
};

// The device block that holds, or ends at most `slack` bytes before, this address; or null.
const MemoryBlock* DeviceBlockAt(const void* address, size_t slack = 0);
const MemoryBlock* PinnedBlockAt(const void* address);

}  // namespace tost::simt

#endif  // TOST_TESTS_SIMT_MEMORY_H_
