// The floor of a step on a machine, kernel by kernel, for people and for programs.
#ifndef TOST_ROOFLINE_REPORT_H_
#define TOST_ROOFLINE_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "roofline/machines.h"
#include "roofline/step_cost.h"

namespace tost::roofline {

// All launches of a kernel in a phase.
struct KernelFloor {
  std::string phase;  // "forward", "backward", "update"
  std::string kernel;
  int64_t launches = 0;
  Traffic traffic;
  double seconds = 0;            // the sum of the launches' floors
  Bound bound = Bound::kMemory;  // of the larger part of it
};

// By phase, the longest first.
std::vector<KernelFloor> Floors(const StepCost& cost, const Machine& machine);

struct Report {
  std::string model;
  int64_t parameters = 0;
  int64_t batch = 0;       // sequences or pictures
  int64_t tokens = 0;      // of one of them; 0 for pictures
  int64_t image_size = 0;  // pixels in both directions; 0 for text
  std::string compute_dtype;
  Machine machine;
  std::vector<KernelFloor> floors;
  StepMemory memory;
  int64_t model_flops = 0;
  double peak_flops = 0;      // of products in compute_dtype
  int64_t memory_limit = 0;   // bytes
  int64_t largest_batch = 0;  // that fits it

  double seconds() const;  // of the whole step at its floor
  // Model FLOPs utilisation if the step took no longer than its floor.
  double utilisation() const;

  std::string Table() const;
  std::string Json() const;
};

}  // namespace tost::roofline

#endif  // TOST_ROOFLINE_REPORT_H_
