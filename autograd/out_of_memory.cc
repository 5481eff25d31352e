#include "autograd/out_of_memory.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "autograd/base/errors.h"

namespace tost {
namespace {

thread_local const OutOfMemoryAdvice* current_advice = nullptr;

}  // namespace

std::string FormatBytes(int64_t bytes) {
  const char* unit = "bytes";
  auto value = static_cast<double>(bytes);
  for (const char* larger : {"KiB", "MiB", "GiB", "TiB"}) {
    if (value < 1024) break;
    value /= 1024;
    unit = larger;
  }
  return bytes < 1024 ? absl::StrCat(bytes, " bytes") : absl::StrFormat("%.1f %s", value, unit);
}

std::string Describe(const OutOfMemory& failure) {
  return absl::StrCat(
      failure.device.ToString(), " is out of memory: a tensor ", failure.shape.ToString(), " of ",
      Name(failure.dtype), " needs ", FormatBytes(failure.asked_bytes),
      failure.free_bytes < 0 ? std::string()
                             : absl::StrCat(", ", FormatBytes(failure.free_bytes), " are free"),
      ", ", FormatBytes(failure.live_bytes), " in use");
}

OutOfMemoryAdvice::OutOfMemoryAdvice(Advise advise)
    : advise_(std::move(advise)), outer_(std::exchange(current_advice, this)) {}

OutOfMemoryAdvice::~OutOfMemoryAdvice() { current_advice = outer_; }

void FailOutOfMemory(const OutOfMemory& failure) {
  std::string message = Describe(failure);
  if (current_advice != nullptr) {
    absl::StrAppend(&message, "; ", current_advice->advise_(failure));
  }
  EndProcess(message);
}

}  // namespace tost
