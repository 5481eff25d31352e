#include "roofline/report.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

namespace tost::roofline {
namespace {

constexpr double kGiga = 1e9;

double Giga(int64_t count) { return static_cast<double>(count) / kGiga; }

void AddPhase(const std::string& phase, const std::vector<Launch>& launches, const Machine& machine,
              std::vector<KernelFloor>& floors) {
  struct Sum {
    KernelFloor floor;
    std::map<Bound, double> seconds;
  };
  std::map<std::string, Sum> by_kernel;
  for (const Launch& launch : launches) {
    Sum& sum = by_kernel[launch.kernel];
    const Floor floor = FloorOf(launch.traffic, machine);
    ++sum.floor.launches;
    sum.floor.traffic += launch.traffic;
    sum.floor.seconds += floor.seconds;
    sum.seconds[floor.bound] += floor.seconds;
  }
  const size_t first = floors.size();
  for (auto& [kernel, sum] : by_kernel) {
    sum.floor.phase = phase;
    sum.floor.kernel = kernel;
    sum.floor.bound = std::ranges::max_element(sum.seconds, {}, [](const auto& entry) {
                        return entry.second;
                      })->first;
    floors.push_back(std::move(sum.floor));
  }
  std::ranges::stable_sort(floors.begin() + static_cast<std::ptrdiff_t>(first), floors.end(),
                           std::greater<>(), &KernelFloor::seconds);
}

std::string Row(const std::string& phase, const std::string& kernel, const KernelFloor& sum,
                double step_seconds, absl::string_view bound) {
  return absl::StrFormat("%-9s %-44s %8d %9.2f %10.1f %9.3f %6.1f  %s\n", phase, kernel,
                         sum.launches, Giga(sum.traffic.bytes()), Giga(sum.traffic.flops()),
                         1e3 * sum.seconds, 100 * sum.seconds / step_seconds, bound);
}

void Add(const KernelFloor& floor, KernelFloor& sum) {
  sum.launches += floor.launches;
  sum.traffic += floor.traffic;
  sum.seconds += floor.seconds;
}

std::string SizeOfStep(const Report& report) {
  if (report.image_size == 0) {
    return absl::StrCat(report.batch, " x ", report.tokens, " tokens");
  }
  return absl::StrCat(report.batch, " pictures of ", report.image_size, " x ", report.image_size);
}

std::string MemoryLines(const Report& report) {
  const StepMemory& memory = report.memory;
  return absl::StrFormat(
      "memory: %.2f GB at most: parameters %.2f, gradients %.2f, moments %.2f, activations and "
      "workspace %.2f\nlargest micro-batch in %.0f GB: %d %s\n",
      Giga(memory.peak()), Giga(memory.parameters), Giga(memory.gradients), Giga(memory.optimizer),
      Giga(memory.activations), Giga(report.memory_limit), report.largest_batch,
      report.image_size == 0 ? "sequences" : "pictures");
}

}  // namespace

std::vector<KernelFloor> Floors(const StepCost& cost, const Machine& machine) {
  std::vector<KernelFloor> floors;
  AddPhase("forward", cost.forward, machine, floors);
  AddPhase("backward", cost.backward, machine, floors);
  AddPhase("update", cost.update, machine, floors);
  return floors;
}

double Report::seconds() const {
  double sum = 0;
  for (const KernelFloor& floor : floors) sum += floor.seconds;
  return sum;
}

double Report::utilisation() const {
  return static_cast<double>(model_flops) / (seconds() * peak_flops);
}

std::string Report::Table() const {
  constexpr double kLeastShare = 0.001;  // of a row of its own
  const double step = seconds();
  std::string table = absl::StrFormat(
      "%s, %.1fM parameters, %s, %s, one update on %s: %.3g TB/s, %.3g TFLOP/s of bfloat16 "
      "products, %.3g of float32\n\n%-9s %-44s %8s %9s %10s %9s %6s  %s\n",
      model, static_cast<double>(parameters) / 1e6, SizeOfStep(*this), compute_dtype,
      machine.description, machine.bytes_per_second / 1e12, machine.bfloat16_products / 1e12,
      machine.float32 / 1e12, "phase", "kernel", "launches", "GB", "GFLOP", "floor ms", "%",
      "bound by");
  KernelFloor all;
  for (const std::string phase : {"forward", "backward", "update"}) {
    KernelFloor sum, others;
    for (const KernelFloor& floor : floors) {
      if (floor.phase != phase) continue;
      Add(floor, sum);
      if (floor.seconds < kLeastShare * step) {
        Add(floor, others);
      } else {
        absl::StrAppend(&table, Row(phase, floor.kernel, floor, step, Name(floor.bound)));
      }
    }
    if (others.launches > 0) absl::StrAppend(&table, Row(phase, "others", others, step, ""));
    absl::StrAppend(&table, Row(phase, "all", sum, step, ""));
    Add(sum, all);
  }
  absl::StrAppend(&table, Row("step", "all", all, step, ""), "\n");
  const double rows = static_cast<double>(batch * (image_size == 0 ? tokens : 1)) / step;
  absl::StrAppend(
      &table,
      absl::StrFormat("at the floor: %.1f ms, %.0f %s/s, %.1f %% of the peak of %s products by "
                      "%.0f GFLOP of the model\n",
                      1e3 * step, rows, image_size == 0 ? "tokens" : "pictures",
                      100 * utilisation(), compute_dtype, Giga(model_flops)),
      MemoryLines(*this));
  return table;
}

std::string Report::Json() const {
  nlohmann::ordered_json object = {{"model", model},
                                   {"parameters", parameters},
                                   {"batch", batch},
                                   {"compute_dtype", compute_dtype}};
  if (image_size == 0) {
    object["tokens"] = tokens;
  } else {
    object["image_size"] = image_size;
  }
  object["device"] = {{"name", machine.name},
                      {"description", machine.description},
                      {"bytes_per_second", machine.bytes_per_second},
                      {"bfloat16_product_flops", machine.bfloat16_products},
                      {"float32_flops", machine.float32},
                      {"memory_bytes", memory_limit}};
  object["seconds"] = seconds();
  object["model_flops"] = model_flops;
  object["utilisation"] = utilisation();
  object["memory"] = {{"parameters", memory.parameters},
                      {"gradients", memory.gradients},
                      {"moments", memory.optimizer},
                      {"activations", memory.activations},
                      {"peak", memory.peak()}};
  object["largest_batch"] = largest_batch;
  object["kernels"] = nlohmann::ordered_json::array();
  for (const KernelFloor& floor : floors) {
    object["kernels"].push_back({{"phase", floor.phase},
                                 {"kernel", floor.kernel},
                                 {"launches", floor.launches},
                                 {"bytes_read", floor.traffic.bytes_read},
                                 {"bytes_written", floor.traffic.bytes_written},
                                 {"bfloat16_product_flops", floor.traffic.bfloat16_products},
                                 {"float32_product_flops", floor.traffic.float32_products},
                                 {"vector_flops", floor.traffic.vector_flops},
                                 {"seconds", floor.seconds},
                                 {"bound_by", std::string(Name(floor.bound))}});
  }
  return absl::StrCat(object.dump(2), "\n");
}

}  // namespace tost::roofline
