// Small kernels to test the emulator with, each right or with one planted defect.
#ifndef TOST_TESTS_SIMT_SAMPLE_KERNELS_H_
#define TOST_TESTS_SIMT_SAMPLE_KERNELS_H_

#include <cuda_runtime.h>

#include "autograd/base/bfloat16.h"

namespace tost::simt {

enum class Defect {
  kNone,
  kMissingBarrier,       // between writing and reading a shared array
  kMissingReuseBarrier,  // before a shared array is written again
  kMissingSyncWarp,      // between lanes that hand values on in shared memory
  kDivergentBarrier,     // __syncthreads in one warp only
  kReturnBeforeBarrier,  // of one warp
  kMaskWithoutSource,    // a shuffle from a lane that its mask lacks
  kDivergentShuffle,     // half of the lanes named in the mask call another one
  kSharedOutOfBounds,
  kGlobalOutOfBounds,
  kUnsharedSum,      // += of all threads of a block on one number
  kUnsharedGridSum,  // += of one thread of each block on one number
  kForeignStack,     // a pointer to a local variable handed to another thread
  kNoDynamicShared,
};

// sums[r] = Σ over the columns of row r of x, one block each. `threads` a multiple of 32, ≤ 256.
template <class T>
void SumRows(Defect defect, const T* x, float* sums, int rows, int columns, int threads,
             cudaStream_t stream);

// y[i] = 2 x[i] + 1
void TwicePlusOne(const float* x, float* y, int count, cudaStream_t stream);

// y = x, eight elements at once when `pack`, which `count` is then a multiple of.
void CopyPacked(const bfloat16* x, bfloat16* y, int count, bool pack, cudaStream_t stream);

}  // namespace tost::simt

#endif  // TOST_TESTS_SIMT_SAMPLE_KERNELS_H_
