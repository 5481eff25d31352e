// What machines can do at best.
#ifndef TOST_ROOFLINE_MACHINES_H_
#define TOST_ROOFLINE_MACHINES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "roofline/counting_device.h"

namespace tost::roofline {

struct Machine {
  std::string name;         // for --device
  std::string description;  // and where the figures come from
  double bytes_per_second = 0;
  // FLOP/s of products of bfloat16, without sparsity, and of float32 that rounds nothing: products,
  // and everything that is no product.
  double bfloat16_products = 0;
  double float32 = 0;
  int64_t memory_bytes = 0;
};

// h200, h100, a100 (SXM, 80 GB): data sheets. cpu: this machine, measured in a fraction of a second
// on the threads in use. InvalidArgument, naming the known ones, for any other.
absl::StatusOr<Machine> MachineNamed(absl::string_view name);

// What bounds a launch from below.
enum class Bound { kMemory, kProducts, kVector };
absl::string_view Name(Bound bound);  // "memory", "tensor cores", "float32"

struct Floor {
  double seconds = 0;
  Bound bound = Bound::kMemory;
};

// The least time of one launch: the longest of moving its bytes, of its bfloat16 products and of
// all its float32 arithmetic, each at the machine's best and all at once.
Floor FloorOf(const Traffic& traffic, const Machine& machine);

}  // namespace tost::roofline

#endif  // TOST_ROOFLINE_MACHINES_H_
