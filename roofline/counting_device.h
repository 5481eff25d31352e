// The counting device: a device on which nothing is computed and everything is counted. Its memory
// is addresses without bytes behind them, its kernels (roofline/counting_kernels.cc) note what they
// would read, write and compute. A training step of any model at any size thus runs in milliseconds
// on any machine and leaves the list of its launches and its peak of memory.
#ifndef TOST_ROOFLINE_COUNTING_DEVICE_H_
#define TOST_ROOFLINE_COUNTING_DEVICE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "autograd/device.h"

namespace tost::roofline {

// What a kernel asks of the device. An addition, multiplication, comparison or elementary function
// counts as one floating-point operation, a product's multiplication with its addition as two.
struct Traffic {
  int64_t bytes_read = 0;
  int64_t bytes_written = 0;
  int64_t bfloat16_products = 0;  // FLOPs of the GEMM library's products of bfloat16
  int64_t float32_products = 0;   // and of float32 (or float64)
  int64_t vector_flops = 0;       // all other FLOPs: float32, not on tensor cores

  int64_t bytes() const { return bytes_read + bytes_written; }
  int64_t flops() const { return bfloat16_products + float32_products + vector_flops; }
  Traffic& operator+=(const Traffic& other);
  friend bool operator==(const Traffic&, const Traffic&) = default;
};

struct Launch {
  std::string kernel;  // the slot's name, with " backward" or ": part" where a slot has several
  Traffic traffic;
};

// The one counting device of this process, on one thread at a time; installs its runtime and the
// kernels of all slots at the first call. Fills and copies on the device count as launches of
// "fill" and "copy"; transfers to and from the host do not count. What is read back is zero.
Device CountingDevice();

// Adds a launch to the list. Called by the device's kernels.
void Record(std::string kernel, const Traffic& traffic);
// The launches since the last call.
std::vector<Launch> TakeLaunches();

}  // namespace tost::roofline

#endif  // TOST_ROOFLINE_COUNTING_DEVICE_H_
