// The one door to the thread pool (OpenMP's, shared with the GEMM library).
#ifndef TOST_AUTOGRAD_BASE_PARALLEL_H_
#define TOST_AUTOGRAD_BASE_PARALLEL_H_

#include <cstdint>

#include "absl/functional/function_ref.h"

namespace tost {

// Runs body(begin, end) for consecutive ranges of at most `grain` that together cover [0, count).
// The ranges depend on `count` and `grain` only, never on the number of threads, so a body that
// writes what its range owns gives the same bits on every machine. Called from inside another
// ParallelFor it runs on the calling thread.
void ParallelFor(int64_t count, int64_t grain, absl::FunctionRef<void(int64_t, int64_t)> body);

// Threads that ParallelFor may use. 1 in a build without OpenMP.
int ThreadCount();
void SetThreadCount(int threads);
// Whether this build has OpenMP.
bool HasThreadPool();

// The range length that gives each task about 16,384 elements, for rows of `row_elements` each:
// long enough to hide the cost of a task, short enough to spread over many cores.
inline int64_t RowGrain(int64_t row_elements) {
  constexpr int64_t kElementsPerTask = 16384;
  const int64_t rows = kElementsPerTask / (row_elements > 0 ? row_elements : 1);
  return rows > 0 ? rows : 1;
}

}  // namespace tost

#endif  // TOST_AUTOGRAD_BASE_PARALLEL_H_
