// The end of a program whose device has no memory left for a tensor.
#ifndef TOST_AUTOGRAD_OUT_OF_MEMORY_H_
#define TOST_AUTOGRAD_OUT_OF_MEMORY_H_

#include <cstdint>
#include <functional>
#include <string>

#include "autograd/base/dtype.h"
#include "autograd/device.h"
#include "autograd/shape.h"

namespace tost {

struct OutOfMemory {
  Device device;
  Shape shape;  // of the tensor that found no room
  DType dtype = DType::kFloat32;
  int64_t asked_bytes = 0;
  int64_t live_bytes = 0;   // of this process's tensors
  int64_t free_bytes = -1;  // that the device has besides; -1: it does not say
};

// One line: what was asked for, what is free, what is in use.
std::string Describe(const OutOfMemory& failure);
// "24.0 MiB"
std::string FormatBytes(int64_t bytes);

// Prints the description, and advice where there is some, and ends the process: in the middle of an
// op there is nobody to return a Status to.
[[noreturn]] void FailOutOfMemory(const OutOfMemory& failure);

// While it lives, what happens on this thread when memory runs out is completed by what `advise`
// returns: the way out, as the code that knows the work's size sees it.
class OutOfMemoryAdvice {
 public:
  using Advise = std::function<std::string(const OutOfMemory&)>;

  explicit OutOfMemoryAdvice(Advise advise);
  ~OutOfMemoryAdvice();
  OutOfMemoryAdvice(const OutOfMemoryAdvice&) = delete;
  OutOfMemoryAdvice& operator=(const OutOfMemoryAdvice&) = delete;

 private:
  friend void FailOutOfMemory(const OutOfMemory& failure);
  Advise advise_;
  const OutOfMemoryAdvice* outer_;
};

}  // namespace tost

#endif  // TOST_AUTOGRAD_OUT_OF_MEMORY_H_
