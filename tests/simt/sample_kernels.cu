#include "cuda/gpu.h"
#include "tests/simt/sample_kernels.h"

namespace tost::simt {

inline constexpr unsigned kAllLanes = 0xffffffffu;
inline constexpr int kLanes = 32;
inline constexpr int kWarps = 8;

template <Defect kDefect>
__device__ __forceinline__ float WarpTotal(float value, int lane) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  if (kDefect == Defect::kMaskWithoutSource && lane < kLanes / 2) {
    value += __shfl_down_sync(0x0000ffffu, value, kLanes / 2);
  }
  if (kDefect == Defect::kDivergentShuffle) {
    value += lane < kLanes / 2 ? __shfl_down_sync(kAllLanes, value, 1)
                               : __shfl_up_sync(kAllLanes, value, 1);
  }
  return value;
}

// The sum over the block, in every thread.
template <Defect kDefect>
__device__ __forceinline__ float BlockTotal(float value) {
  TOST_SHARED(float, partial, [kWarps]);
  const int lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes;
  value = WarpTotal<kDefect>(value, lane);
  // Half as many warps as there is room for: twice their number is the first one past the end.
  const int warps = static_cast<int>(blockDim.x) / kLanes;
  const int slot = kDefect == Defect::kSharedOutOfBounds ? warp + 2 * warps : warp;
  if (lane == 0) partial[slot] = value;
  if (kDefect != Defect::kMissingBarrier) __syncthreads();
  float total = 0;
  for (int i = 0; i < warps; ++i) total += partial[i];
  if (kDefect != Defect::kMissingReuseBarrier) __syncthreads();
  return total;
}

// The neighbour's value, through shared memory.
template <Defect kDefect>
__device__ __forceinline__ float FromNeighbour(float value) {
  TOST_SHARED(float, values, [kLanes * kWarps]);
  values[threadIdx.x] = value;
  if (kDefect != Defect::kMissingSyncWarp) __syncwarp();
  return values[threadIdx.x ^ 1];
}

template <Defect kDefect>
__device__ __forceinline__ float ThroughStack(float value) {
  if constexpr (kDefect == Defect::kForeignStack) {
    TOST_SHARED(float*, lent, [1]);
    volatile float local = value;
    if (threadIdx.x == 0) lent[0] = const_cast<float*>(&local);
    __syncthreads();
    value = *lent[0];
    __syncthreads();
  }
  return value;
}

// A block sums one row; thread i takes the columns i, i + blockDim.x, …
template <class T, Defect kDefect>
__global__ void __launch_bounds__(kLanes* kWarps)
    SumRow(const T* __restrict__ x, float* __restrict__ sums, int columns) {
  const T* row = x + int64_t{blockIdx.x} * columns;
  const bool last = blockIdx.x + 1 == gridDim.x;
  const int end = kDefect == Defect::kGlobalOutOfBounds && last ? columns + 1 : columns;
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < end; i += static_cast<int>(blockDim.x)) {
    sum += static_cast<float>(row[i]);
  }
  sum = ThroughStack<kDefect>(sum);
  if constexpr (kDefect == Defect::kNoDynamicShared) {
    TOST_DYNAMIC_SHARED(float, never_asked_for);
    sum += never_asked_for[0];
  }
  // Half of what two neighbours have, twice.
  sum = 0.5f * (sum + FromNeighbour<kDefect>(sum));
  const float total = BlockTotal<kDefect>(sum);
  if (kDefect == Defect::kReturnBeforeBarrier && threadIdx.x < kLanes) return;
  // The shared array a second time: Σ of the shares of one total is that total again.
  const float again = BlockTotal<kDefect>(total / static_cast<float>(blockDim.x));
  if (kDefect == Defect::kUnsharedSum) {
    sums[blockIdx.x] += sum;
  } else if (threadIdx.x == 0 && kDefect == Defect::kUnsharedGridSum) {
    sums[0] += again;
  } else if (threadIdx.x == 0) {
    sums[blockIdx.x] = again;
  }
  if (kDefect == Defect::kDivergentBarrier && threadIdx.x < kLanes) __syncthreads();
}

// One thread an element.
__global__ void TwicePlusOneKernel(const float* __restrict__ x, float* __restrict__ y, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) y[i] = 2 * x[i] + 1;
}

// One thread moves kPack neighbouring elements in one access.
template <int kPack>
__global__ void CopyPackedKernel(const bfloat16* __restrict__ x, bfloat16* __restrict__ y,
                                 int packs) {
  struct alignas(sizeof(bfloat16) * kPack) Pack {
    bfloat16 elements[kPack];
  };
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < packs) reinterpret_cast<Pack*>(y)[i] = reinterpret_cast<const Pack*>(x)[i];
}

namespace {

constexpr int kElementThreads = 64;
int ElementBlocks(int count) { return (count + kElementThreads - 1) / kElementThreads; }

template <class T, Defect kDefect>
void Launch(const T* x, float* sums, int rows, int columns, int threads, cudaStream_t stream) {
  gpu::Launch(SumRow<T, kDefect>, dim3(static_cast<unsigned>(rows)),
              dim3(static_cast<unsigned>(threads)), 0, stream, x, sums, columns);
}

template <class T>
using Launcher = void (*)(const T*, float*, int, int, int, cudaStream_t);

// In the order of the enumeration.
template <class T>
constexpr Launcher<T> kLaunchers[] = {
    &Launch<T, Defect::kNone>,
    &Launch<T, Defect::kMissingBarrier>,
    &Launch<T, Defect::kMissingReuseBarrier>,
    &Launch<T, Defect::kMissingSyncWarp>,
    &Launch<T, Defect::kDivergentBarrier>,
    &Launch<T, Defect::kReturnBeforeBarrier>,
    &Launch<T, Defect::kMaskWithoutSource>,
    &Launch<T, Defect::kDivergentShuffle>,
    &Launch<T, Defect::kSharedOutOfBounds>,
    &Launch<T, Defect::kGlobalOutOfBounds>,
    &Launch<T, Defect::kUnsharedSum>,
    &Launch<T, Defect::kUnsharedGridSum>,
    &Launch<T, Defect::kForeignStack>,
    &Launch<T, Defect::kNoDynamicShared>,
};

}  // namespace

template <class T>
void SumRows(Defect defect, const T* x, float* sums, int rows, int columns, int threads,
             cudaStream_t stream) {
  kLaunchers<T>[static_cast<size_t>(defect)](x, sums, rows, columns, threads, stream);
}
template void SumRows(Defect, const float*, float*, int, int, int, cudaStream_t);
template void SumRows(Defect, const bfloat16*, float*, int, int, int, cudaStream_t);

void TwicePlusOne(const float* x, float* y, int count, cudaStream_t stream) {
  gpu::Launch(TwicePlusOneKernel, dim3(static_cast<unsigned>(ElementBlocks(count))),
              dim3(kElementThreads), 0, stream, x, y, count);
}

void CopyPacked(const bfloat16* x, bfloat16* y, int count, bool pack, cudaStream_t stream) {
  constexpr int kPack = 8;
  if (pack) {
    gpu::Launch(CopyPackedKernel<kPack>, dim3(static_cast<unsigned>(ElementBlocks(count / kPack))),
                dim3(kElementThreads), 0, stream, x, y, count / kPack);
  } else {
    gpu::Launch(CopyPackedKernel<1>, dim3(static_cast<unsigned>(ElementBlocks(count))),
                dim3(kElementThreads), 0, stream, x, y, count);
  }
}

}  // namespace tost::simt
