#include "roofline/machines.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "autograd/base/parallel.h"
#include "ops/cpu/lanes.h"

namespace tost::roofline {
namespace {

constexpr double kTera = 1e12;
constexpr int64_t kGigabyte = 1'000'000'000;

// Dense bfloat16 is half the figure "with sparsity" of the two data sheets that give only that one.
const Machine kGpus[] = {
    {.name = "h200",
     .description = "NVIDIA H200 SXM (data sheet)",
     .bytes_per_second = 4.8 * kTera,
     .bfloat16_products = 989 * kTera,
     .float32 = 67 * kTera,
     .memory_bytes = 141 * kGigabyte},
    {.name = "h100",
     .description = "NVIDIA H100 SXM 80 GB (data sheet)",
     .bytes_per_second = 3.35 * kTera,
     .bfloat16_products = 989 * kTera,
     .float32 = 67 * kTera,
     .memory_bytes = 80 * kGigabyte},
    {.name = "a100",
     .description = "NVIDIA A100 SXM 80 GB (data sheet)",
     .bytes_per_second = 2.039 * kTera,
     .bfloat16_products = 312 * kTera,
     .float32 = 19.5 * kTera,
     .memory_bytes = 80 * kGigabyte},
};

// The least wall time of several calls.
template <class Work>
double BestSeconds(Work&& work) {
  using Clock = std::chrono::steady_clock;
  constexpr int kCalls = 5;
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kCalls; ++i) {
    const Clock::time_point start = Clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

// A copy between arrays that no cache holds, bytes read and written.
double CopyBandwidth() {
  constexpr int64_t kBytes = int64_t{128} << 20, kRange = int64_t{1} << 20;
  std::vector<std::byte> from(kBytes, std::byte{1}), to(kBytes);
  const double seconds = BestSeconds([&] {
    ParallelFor(kBytes, kRange, [&](int64_t begin, int64_t end) {
      std::memcpy(to.data() + begin, from.data() + begin, static_cast<size_t>(end - begin));
    });
  });
  return 2 * static_cast<double>(kBytes) / seconds;
}

// Multiplications with additions in as many independent chains as there are registers for.
double FloatFlops() {
  using ops::cpu::Lanes;
  constexpr int64_t kSteps = 1 << 20;
  constexpr int kChains = 7;
  const int64_t threads = ThreadCount();
  std::vector<float> results(static_cast<size_t>(threads));
  const double seconds = BestSeconds([&] {
    ParallelFor(threads, 1, [&](int64_t begin, int64_t end) {
      for (int64_t thread = begin; thread < end; ++thread) {
        const Lanes<float> half = Lanes<float>{} + 0.5f;
        // Chains that began alike would be computed once.
        Lanes<float> a = half, b = half * 2, c = half * 3, d = half * 4, e = half * 5, f = half * 6,
                     g = half * 7;
        for (int64_t step = 0; step < kSteps; ++step) {
          a = a * half + half;
          b = b * half + half;
          c = c * half + half;
          d = d * half + half;
          e = e * half + half;
          f = f * half + half;
          g = g * half + half;
        }
        const Lanes<float> sum = a + b + c + d + e + f + g;
        results[static_cast<size_t>(thread)] = sum[0];
      }
    });
  });
  return 2.0 * static_cast<double>(kSteps * kChains * ops::cpu::kLanes<float> * threads) / seconds;
}

Machine MeasuredCpu() {
  const int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
  const double flops = FloatFlops();
  // bfloat16 is converted and multiplied as float32 there.
  return {.name = "cpu",
          .description = absl::StrCat("this machine, ", ThreadCount(), " threads (measured)"),
          .bytes_per_second = CopyBandwidth(),
          .bfloat16_products = flops,
          .float32 = flops,
          .memory_bytes = pages * page};
}

}  // namespace

absl::StatusOr<Machine> MachineNamed(absl::string_view name) {
  if (name == "cpu") return MeasuredCpu();
  std::string known;
  for (const Machine& gpu : kGpus) {
    if (gpu.name == name) return gpu;
    absl::StrAppend(&known, gpu.name, ", ");
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--device is ", known, "or cpu, not '", name, "'"));
}

absl::string_view Name(Bound bound) {
  switch (bound) {
    case Bound::kMemory:
      return "memory";
    case Bound::kProducts:
      return "tensor cores";
    case Bound::kVector:
      return "float32";
  }
  return "?";
}

Floor FloorOf(const Traffic& traffic, const Machine& machine) {
  const Floor candidates[] = {
      {static_cast<double>(traffic.bytes()) / machine.bytes_per_second, Bound::kMemory},
      {static_cast<double>(traffic.bfloat16_products) / machine.bfloat16_products,
       Bound::kProducts},
      {static_cast<double>(traffic.float32_products + traffic.vector_flops) / machine.float32,
       Bound::kVector}};
  return *std::ranges::max_element(candidates, {}, &Floor::seconds);
}

}  // namespace tost::roofline
