// Batch normalisation over the last axis (ops/batch_norm.h).
#ifndef TOST_CUDA_BATCH_NORM_CUH_
#define TOST_CUDA_BATCH_NORM_CUH_

#include "cuda/math.cuh"
#include "cuda/pack.cuh"
#include "cuda/reduce.cuh"
#include "cuda/thread_groups.cuh"
#include "ops/reduce_functors.h"

namespace tost::cuda {

// ---- Elements ----

struct NormaliseChannel {
  template <class S>
  __device__ __forceinline__ S operator()(S x, S mean, S rstd, S weight, S bias) const {
    return (x - mean) * rstd * weight + bias;
  }
};

struct BatchNormGradient {
  template <class S>
  __device__ __forceinline__ S operator()(S x, S dy, S mean, S rstd, S weight, S mean_dy,
                                          S mean_dy_x) const {
    return rstd * weight * (dy - mean_dy - (x - mean) * rstd * mean_dy_x);
  }
};

// A weight of zero drops even what is not finite.
struct TrackedStatistic {
  double kept, added;
  template <class S>
  __device__ __forceinline__ S operator()(S value, S running) const {
    const S before = kept == 0 ? S(0) : static_cast<S>(kept) * running;
    return added == 0 ? before : before + static_cast<S>(added) * value;
  }
};

struct ReciprocalDeviation {
  double epsilon;
  template <class S>
  __device__ __forceinline__ S operator()(S variance) const {
    return S(1) / Sqrt(variance + static_cast<S>(epsilon));
  }
};

// ---- Sums over rows ----

// x and dy are [rows, channels].
template <class T>
struct BatchNormOperands {
  int64_t rows;
  int channels;
  const T* x;
  const T* dy;
  const Sum<T>* mean;
  const Sum<T>* rstd;
};

// A block is a part of the rows and a strip of channels; a group owns a pack of channels, and its
// lanes take the part's rows in turn. partial [parts, 2, channels]: Σ dy, Σ dy x̂ of each part.
template <int kPack, class T>
__global__ void __launch_bounds__(kGroupThreads)
    BatchNormSumsKernel(BatchNormOperands<T> on, int lanes, int64_t part, int strips,
                        Sum<T>* partial) {
  using S = Sum<T>;
  const ThreadGroup<Layout::kColumn> threads(lanes);
  const int strip = static_cast<int>(blockIdx.x) % strips;
  const int64_t index = static_cast<int>(blockIdx.x) / strips;
  const int channel = (strip * threads.groups + threads.group) * kPack;
  const bool valid = channel < on.channels;
  const int64_t begin = index * part, end = valid ? min(begin + part, on.rows) : begin;
  Numbers<S, kPack> sums{}, products{}, mean{}, rstd{};
#pragma unroll
  for (int e = 0; e < kPack; ++e) {
    mean[e] = valid ? on.mean[channel + e] : S(0);
    rstd[e] = valid ? on.rstd[channel + e] : S(0);
  }
  for (int64_t row = begin + threads.lane; row < end; row += threads.lanes) {
    const int64_t at = row * on.channels + channel;
    const auto x = LoadPack<kPack>(on.x + at), dy = LoadPack<kPack>(on.dy + at);
#pragma unroll
    for (int e = 0; e < kPack; ++e) {
      sums[e] += dy[e];
      products[e] += dy[e] * (x[e] - mean[e]) * rstd[e];
    }
  }
  sums = GroupReduce<Add>(threads, sums);
  products = GroupReduce<Add>(threads, products);
  if (!valid || threads.lane != 0) return;
  S* out = partial + index * 2 * on.channels + channel;
#pragma unroll
  for (int e = 0; e < kPack; ++e) {
    out[e] = sums[e];
    out[on.channels + e] = products[e];
  }
}

// sums [2, channels]. scratch(n) gives room for n numbers. Reads x and dy once.
template <class T, class Scratch>
void LaunchBatchNormSums(const BatchNormOperands<T>& on, Sum<T>* sums, cudaStream_t stream,
                         const Scratch& scratch) {
  using S = Sum<T>;
  VisitPack<T>(PacksFit<T>(on.channels, on.x, on.dy), [&]<int kPack>() {
    Reduction work{};
    work.outputs = on.channels;
    work.elements = on.rows;
    const int64_t blocks = CutColumns(kPack, on.rows, work), parts = work.parts.value();
    S* const partial = parts == 1 ? sums : scratch(parts * 2 * on.channels);
    gpu::Launch(BatchNormSumsKernel<kPack, T>, dim3(static_cast<unsigned>(blocks)),
                dim3(kGroupThreads), 0, stream, on, work.lanes, work.part,
                static_cast<int>(blocks / parts), partial);
    if (parts == 1) return;
    Reduction second = ReductionOfPartials(Layout::kColumn, 2 * on.channels, parts);
    const int64_t second_blocks = CutColumns(1, 1, second);
    LaunchReduce<Partials<ops::functor::Total>, 1>(
        Layout::kColumn, second, second_blocks, static_cast<const S*>(partial),
        static_cast<const S*>(nullptr), Results<S, S>{S(1), false, sums}, stream);
  });
}

}  // namespace tost::cuda

#endif  // TOST_CUDA_BATCH_NORM_CUH_
