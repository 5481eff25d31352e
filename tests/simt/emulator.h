// How tests and host libraries speak with the emulated device. What kernels see is in simt.h.
#ifndef TOST_TESTS_SIMT_EMULATOR_H_
#define TOST_TESTS_SIMT_EMULATOR_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>

namespace tost::simt {

// Who gets ahead where CUDA leaves it open: threads of a block, blocks of a grid, streams, nodes of
// a graph.
//   kForward  the lowest number; a stream runs as soon as something is queued
//   kReverse  the highest number; a stream runs only when the host waits for it
//   kRandom   drawn from `seed`
enum class Order { kForward, kReverse, kRandom };

// The environment presets them for whole programs: TOST_SIMT_ORDER=forward, reverse or a seed, and
// TOST_SIMT_MEMORY_MIB.
struct Options {
  Order order = Order::kRandom;
  uint64_t seed = 1;
  size_t device_memory = size_t{8} << 30;  // bytes; cudaMalloc fails beyond
};
Options& options();

// Whether the access checker is linked in.
bool ChecksAccesses();

struct Statistics {
  int64_t launches = 0;
  int64_t ptx_launches = 0;           // of these, executed as nvcc's PTX
  std::set<std::string> without_ptx;  // kernels that were launched and have none
};
const Statistics& statistics();

// What kernels have read and written of one device block, in bytes, since the last reset: a kernel
// that passes over a tensor twice reads twice its size. Only the checked build counts.
struct AccessCount {
  int64_t read = 0;
  int64_t written = 0;
};
// Of the block that begins at this address; the device has finished what was queued.
AccessCount AccessesTo(const void* block);
void ResetAccessCounts();

// Queues work of a host library that stands in for one of the device's. It must say what it
// touches, so that the memory is checked as a kernel's would be.
void Enqueue(cudaStream_t stream, std::function<void()> work);
void DeviceReads(const void* begin, size_t bytes);
void DeviceWrites(void* begin, size_t bytes);

// In the stream's order: the device block at `begin` now belongs to a tensor of `bytes` bytes.
// Whatever it held is overwritten with NaN, and the rest of the block is out of bounds.
void HandOut(void* begin, size_t bytes, cudaStream_t stream);

// A defect of the program under test (a race, a deadlock, an access out of bounds) ends the process
// with one line that names it, unless a test keeps defects: then the operation is abandoned and
// every CUDA call fails, as after a fault on a GPU, until the line is taken.
void KeepDefects();
std::string TakeDefect();  // the first one, or ""

}  // namespace tost::simt

#endif  // TOST_TESTS_SIMT_EMULATOR_H_
