#include "autograd/base/parallel.h"

#include <algorithm>

#include "autograd/base/errors.h"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace tost {

void ParallelFor(int64_t count, int64_t grain, absl::FunctionRef<void(int64_t, int64_t)> body) {
  TOST_CHECK(grain > 0) << "ParallelFor: grain must be positive";
  const int64_t ranges = (count + grain - 1) / grain;
  auto run = [&](int64_t range) { body(range * grain, std::min(count, (range + 1) * grain)); };
#ifdef _OPENMP
  if (ranges > 1 && !omp_in_parallel()) {
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t range = 0; range < ranges; ++range) run(range);
    return;
  }
#endif
  for (int64_t range = 0; range < ranges; ++range) run(range);
}

#ifdef _OPENMP
int ThreadCount() { return omp_get_max_threads(); }
void SetThreadCount(int threads) { omp_set_num_threads(threads); }
bool HasThreadPool() { return true; }
#else
int ThreadCount() { return 1; }
void SetThreadCount(int) {}
bool HasThreadPool() { return false; }
#endif

}  // namespace tost
