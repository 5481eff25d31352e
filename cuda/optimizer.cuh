// The arithmetic of optimizers over flat tensors (ops/optimizer_functors.h).
#ifndef TOST_CUDA_OPTIMIZER_CUH_
#define TOST_CUDA_OPTIMIZER_CUH_

#include <utility>

#include "cuda/collectives.cuh"
#include "cuda/elements.cuh"
#include "cuda/gpu.h"
#include "cuda/math.cuh"
#include "cuda/pack.cuh"
#include "ops/optimizer_functors.h"

namespace tost::cuda {

inline constexpr int kUpdateThreads = 256;

// Elements of a range of a squared norm.
inline constexpr int64_t kNormRange = int64_t{1} << (gpu::kEmulated ? 11 : 15);

// A block sums the squares of a range, its threads the packs of that range in turn:
// partial[block] = Σ x². In double, as the CPU, so that the norm does not depend on the ranges.
template <class T>
__global__ void __launch_bounds__(kUpdateThreads)
    SumSquaresOfRanges(const T* x, int64_t count, int64_t range, bool aligned, double* partial) {
  constexpr int kPack = kPackWidth<T>;
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * range;
  const int64_t end = min(begin + range, count);
  double sum = 0;
  for (int64_t i = begin + threadIdx.x * kPack; i < end; i += kUpdateThreads * kPack) {
    if (i + kPack <= end) {
      const Numbers<T, kPack> numbers = LoadNeighbours<kPack>(x + i, aligned);
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        sum += static_cast<double>(numbers[k]) * static_cast<double>(numbers[k]);
      }
    } else {
      for (int64_t k = i; k < end; ++k) {
        sum += static_cast<double>(x[k]) * static_cast<double>(x[k]);
      }
    }
  }
  sum = BlockSum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// One block: *sum (+)= Σ partial.
__global__ void __launch_bounds__(kUpdateThreads)
    AddPartialSquares(const double* partial, int64_t count, bool add, double* sum) {
  double total = 0;
  for (int64_t i = threadIdx.x; i < count; i += kUpdateThreads) total += partial[i];
  total = BlockSum(total);
  if (threadIdx.x == 0) *sum = add ? *sum + total : total;
}

// One thread.
__global__ void NextUpdateKernel(ops::UpdateRule rule, const double* squares,
                                 ops::UpdateScalars* update) {
  *update = ops::NextUpdate(rule, *squares, *update);
}

// *sum (+)= Σ x². `partial` has room for ⌈count / kNormRange⌉. Reads x once.
template <class T>
void SquaredNorm(const T* x, int64_t count, bool add, double* partial, double* sum,
                 cudaStream_t stream) {
  const int64_t ranges = CeilDivide(count, kNormRange);
  gpu::Launch(&SumSquaresOfRanges<T>, dim3(static_cast<unsigned>(ranges)), dim3(kUpdateThreads), 0,
              stream, x, count, kNormRange, Aligned<kPackWidth<T>>(x), partial);
  gpu::Launch(&AddPartialSquares, dim3(1), dim3(kUpdateThreads), 0, stream, partial, ranges, add,
              sum);
}

// What one optimizer step reads and writes, `moments` at a time.
template <class T, int moments>
struct UpdatedTensors {
  const T* gradient;
  T* value;
  T* moment[moments];
  bfloat16* compute;  // receives the new value; or null
  int64_t count;
};

// Packs of one thread: the factors of a step cost several divisions in double, which a block forms
// once for all of its elements.
inline constexpr int kUpdatePacks = 4;

// A block owns kUpdatePacks · kUpdateThreads neighbouring packs. Step is a functor of
// ops/optimizer_functors.h, its factors formed from `options` and *update.
template <int kPack, class Step, class Options, class T>
__global__ void __launch_bounds__(kUpdateThreads)
    UpdateKernel(Options options, const ops::UpdateScalars* update,
                 UpdatedTensors<T, Step::kMoments> tensors) {
  if (update->finite == 0) return;
  TOST_SHARED(Step, shared_step, [1]);
  if (threadIdx.x == 0) shared_step[0] = Step(options, *update);
  __syncthreads();
  const Step step = shared_step[0];
  const auto update_pack = [&]<int n>(std::integral_constant<int, n>, int64_t at) {
    const Numbers<T, n> gradient = LoadPack<n>(tensors.gradient + at);
    Numbers<T, n> value = LoadPack<n>(tensors.value + at);
    Numbers<T, n> moment[Step::kMoments];
#pragma unroll
    for (int m = 0; m < Step::kMoments; ++m) moment[m] = LoadPack<n>(tensors.moment[m] + at);
#pragma unroll
    for (int i = 0; i < n; ++i) {
      if constexpr (Step::kMoments == 2) {
        step(gradient[i], value[i], moment[0][i], moment[1][i]);
      } else {
        step(gradient[i], value[i], moment[0][i]);
      }
    }
    StorePack<n>(tensors.value + at, value);
#pragma unroll
    for (int m = 0; m < Step::kMoments; ++m) StorePack<n>(tensors.moment[m] + at, moment[m]);
    if (tensors.compute != nullptr) StorePack<n>(tensors.compute + at, value);
  };
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kUpdatePacks * kUpdateThreads;
#pragma unroll
  for (int p = 0; p < kUpdatePacks; ++p) {
    const int64_t at = (first + p * kUpdateThreads + threadIdx.x) * kPack;
    if (at + kPack <= tensors.count) {
      update_pack(std::integral_constant<int, kPack>{}, at);
    } else {
      for (int64_t i = at; i < tensors.count; ++i) {
        update_pack(std::integral_constant<int, 1>{}, i);
      }
    }
  }
}

// Each tensor is read and written once.
template <class Step, class Options, class T>
void Update(const Options& options, const ops::UpdateScalars* update,
            const UpdatedTensors<T, Step::kMoments>& tensors, cudaStream_t stream) {
  constexpr int kPack = kPackWidth<T>;
  const T* second = tensors.moment[Step::kMoments - 1];
  const bool aligned =
      Aligned<kPack>(tensors.gradient, tensors.value, tensors.moment[0], second, tensors.compute);
  VisitPack<T>(aligned, [&]<int n>() {
    const int64_t blocks = CeilDivide<int64_t>(tensors.count, n * kUpdatePacks * kUpdateThreads);
    gpu::Launch(&UpdateKernel<n, Step, Options, T>, dim3(static_cast<unsigned>(blocks)),
                dim3(kUpdateThreads), 0, stream, options, update, tensors);
  });
}

// average ← keep · average + (1 − keep) · value, unless *update is not finite.
template <class T>
struct MovingAverage {
  T keep, rest;
  const ops::UpdateScalars* update;  // or null
  const T* value;
  T* average;

  template <int n>
  __device__ __forceinline__ void Apply(int64_t at) const {
    if (update != nullptr && update->finite == 0) return;
    const Numbers<T, n> now = LoadPack<n>(value + at);
    Numbers<T, n> mean = LoadPack<n>(average + at);
#pragma unroll
    for (int i = 0; i < n; ++i) mean[i] = keep * mean[i] + rest * now[i];
    StorePack<n>(average + at, mean);
  }
};

}  // namespace tost::cuda

#endif  // TOST_CUDA_OPTIMIZER_CUH_
