// Cross entropy from logits and its gradient, a group of threads per row; the sums around it.
#ifndef TOST_CUDA_LOSS_CUH_
#define TOST_CUDA_LOSS_CUH_

#include <algorithm>

#include "cuda/collectives.cuh"
#include "cuda/elements.cuh"
#include "cuda/gpu.h"
#include "cuda/math.cuh"
#include "cuda/pack.cuh"
#include "cuda/softmax.cuh"
#include "cuda/thread_groups.cuh"

namespace tost::cuda {

// A row of logits per group: [rows, classes], in packs where rows are whole packs.
using LossRow = RowOfGroup<Layout::kRow>;

// log Σ exp of a row as a sum of two, so that the loss of a row with large logits does not lose
// what cancels between them.
template <class S>
struct SplitLogSum {
  S largest;  // logit
  S rest;     // log Σ exp(logit − largest)

  __device__ __forceinline__ S sum() const { return largest + rest; }
  // −log softmax of one of the row's logits.
  __device__ __forceinline__ S LossOf(S logit) const { return rest - (logit - largest); }
};

// The same in all lanes. All threads of the block call it. Reads the row once.
template <int kPack, class T>
__device__ __forceinline__ SplitLogSum<Sum<T>> LogSumOfRow(const LossRow& row, const T* logits,
                                                           bool aligned) {
  using S = Sum<T>;
  RunningSoftmax<S> own;
  for (int64_t v = row.threads.lane * kPack; v < row.extent; v += row.threads.lanes * kPack) {
    own.Add(LoadNeighbours<kPack>(logits + row.first + v, aligned));
  }
  const S largest = GroupReduce<ops::functor::Largest>(row.threads, own.maximum);
  own.sum *= Exp(own.maximum - RunningSoftmax<S>::Origin(largest));
  return {largest, Log(GroupReduce<ops::functor::Total>(row.threads, own.sum))};
}

// Calls body(v) with the first of each pack of the row's classes that is this lane's.
template <int kPack, class Body>
__device__ __forceinline__ void ForEachPackOfRow(const LossRow& row, const Body& body) {
  for (int64_t v = row.threads.lane * kPack; v < row.extent; v += row.threads.lanes * kPack) {
    body(v);
  }
}

template <class S>
__device__ __forceinline__ S NotANumber() {
  return static_cast<S>(__builtin_nanf(""));
}

// What a row's target says.
enum class TargetKind { kCounts, kIgnored, kOutOfRange };
struct Target {
  int32_t id;
  TargetKind kind;
};
struct TargetRule {
  int32_t ignored;
  __device__ __forceinline__ Target Of(const LossRow& row, const int32_t* targets) const {
    const int32_t id = row.valid ? targets[row.index] : ignored;
    if (id == ignored) return {id, TargetKind::kIgnored};
    return {id, id >= 0 && id < row.extent ? TargetKind::kCounts : TargetKind::kOutOfRange};
  }
};

// A block is groups of lanes; a group owns a row.
template <int kPack, class T>
__global__ void __launch_bounds__(kGroupThreads)
    CrossEntropyRows(AxisRows work, TargetRule rule, Sum<T> smoothing, const T* logits,
                     const int32_t* targets, bool aligned, Sum<T>* losses, Sum<T>* log_sums) {
  using S = Sum<T>;
  const LossRow row(work);
  const Target target = rule.Of(row, targets);
  const SplitLogSum<S> split = LogSumOfRow<kPack>(row, logits, aligned);
  S mean = 0;  // of the losses of all classes
  if (smoothing != S(0)) {
    S sum = 0;
    ForEachPackOfRow<kPack>(row, [&](int64_t v) {
      const Numbers<S, kPack> x = LoadNeighbours<kPack>(logits + row.first + v, aligned);
#pragma unroll
      for (int k = 0; k < kPack; ++k) sum += x[k] - split.largest;
    });
    sum = GroupReduce<ops::functor::Total>(row.threads, sum);
    mean = split.rest - sum / static_cast<S>(work.extent);
  }
  if (!row.valid || row.threads.lane != 0) return;
  log_sums[row.index] = split.sum();
  S loss = 0;
  if (target.kind == TargetKind::kCounts) {
    const S hit = split.LossOf(Widen(logits[row.first + target.id]));
    loss = smoothing == S(0) ? hit : hit + smoothing * (mean - hit);
  } else if (target.kind == TargetKind::kOutOfRange) {
    loss = NotANumber<S>();
  }
  losses[row.index] = loss;
}

// out[v…] (+)= gradient
template <int kPack, class T, class S>
__device__ __forceinline__ void PutGradient(T* out, Numbers<S, kPack> gradient, bool aligned,
                                            bool add) {
  if (add) {
    const auto before = LoadNeighbours<kPack>(static_cast<const T*>(out), aligned);
#pragma unroll
    for (int k = 0; k < kPack; ++k) gradient[k] += before[k];
  }
  StoreNeighbours<kPack>(out, gradient, aligned);
}

// A block is groups of lanes; a group owns a row: dlogits (+)= dy (softmax − p).
template <int kPack, class T>
__global__ void __launch_bounds__(kGroupThreads)
    CrossEntropyRowsBackward(AxisRows work, TargetRule rule, Sum<T> smoothing, const T* logits,
                             const int32_t* targets, const Sum<T>* log_sums, const Sum<T>* dy,
                             bool aligned, bool add, T* dlogits) {
  using S = Sum<T>;
  const LossRow row(work);
  if (!row.valid) return;
  const Target target = rule.Of(row, targets);
  const S factor = target.kind == TargetKind::kCounts    ? *dy
                   : target.kind == TargetKind::kIgnored ? S(0)
                                                         : NotANumber<S>();
  const S log_sum = log_sums[row.index];
  const S everywhere = smoothing / static_cast<S>(work.extent);
  ForEachPackOfRow<kPack>(row, [&](int64_t v) {
    Numbers<S, kPack> g = LoadNeighbours<kPack>(logits + row.first + v, aligned);
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      const S p = everywhere + (v + k == target.id ? 1 - smoothing : S(0));
      g[k] = factor * (Exp(g[k] - log_sum) - p);
    }
    PutGradient<kPack>(dlogits + row.first + v, g, aligned, add);
  });
}

// A block is groups of lanes; a group owns a row.
template <int kPack, class T>
__global__ void __launch_bounds__(kGroupThreads)
    SoftCrossEntropyRows(AxisRows work, const T* logits, const Sum<T>* probabilities, bool aligned,
                         Sum<T>* losses, Sum<T>* log_sums) {
  using S = Sum<T>;
  const LossRow row(work);
  const SplitLogSum<S> split = LogSumOfRow<kPack>(row, logits, aligned);
  S loss = 0;
  ForEachPackOfRow<kPack>(row, [&](int64_t v) {
    const Numbers<S, kPack> x = LoadNeighbours<kPack>(logits + row.first + v, aligned);
    const Numbers<S, kPack> p = LoadNeighbours<kPack>(probabilities + row.first + v, aligned);
#pragma unroll
    for (int k = 0; k < kPack; ++k) loss += p[k] * split.LossOf(x[k]);
  });
  loss = GroupReduce<ops::functor::Total>(row.threads, loss);
  if (!row.valid || row.threads.lane != 0) return;
  losses[row.index] = loss;
  log_sums[row.index] = split.sum();
}

// A block is groups of lanes; a group owns a row: dlogits (+)= scale dy (Σp · softmax − p), Σp
// being 1 but for rounding.
template <int kPack, class T>
__global__ void __launch_bounds__(kGroupThreads)
    SoftCrossEntropyRowsBackward(AxisRows work, double scale, const T* logits,
                                 const Sum<T>* probabilities, const Sum<T>* log_sums,
                                 const Sum<T>* dy, bool aligned, bool add, T* dlogits) {
  using S = Sum<T>;
  const LossRow row(work);
  const S factor = static_cast<S>(static_cast<double>(*dy) * scale);
  S mass = 0;
  ForEachPackOfRow<kPack>(row, [&](int64_t v) {
    const Numbers<S, kPack> p = LoadNeighbours<kPack>(probabilities + row.first + v, aligned);
#pragma unroll
    for (int k = 0; k < kPack; ++k) mass += p[k];
  });
  mass = GroupReduce<ops::functor::Total>(row.threads, mass);
  if (!row.valid) return;
  const S log_sum = log_sums[row.index];
  ForEachPackOfRow<kPack>(row, [&](int64_t v) {
    Numbers<S, kPack> g = LoadNeighbours<kPack>(logits + row.first + v, aligned);
    const Numbers<S, kPack> p = LoadNeighbours<kPack>(probabilities + row.first + v, aligned);
#pragma unroll
    for (int k = 0; k < kPack; ++k) g[k] = factor * (mass * Exp(g[k] - log_sum) - p[k]);
    PutGradient<kPack>(dlogits + row.first + v, g, aligned, add);
  });
}

// A block is groups of lanes; a group owns a row: its loss and, unless `gradient` is null,
// softmax − p, which may take the logits' place.
template <int kPack, class S, class G>
__global__ void __launch_bounds__(kGroupThreads)
    LossAndGradientRows(AxisRows work, TargetRule rule, const S* logits, const int32_t* targets,
                        bool aligned, S* losses, G* gradient) {
  const LossRow row(work);
  const Target target = rule.Of(row, targets);
  const SplitLogSum<S> split = LogSumOfRow<kPack>(row, logits, aligned);
  if (!row.valid) return;
  if (target.kind == TargetKind::kCounts) {
    // The lane that will overwrite the target's logit reads it.
    if (row.threads.lane == target.id / kPack % row.threads.lanes) {
      losses[row.index] = split.LossOf(logits[row.first + target.id]);
    }
  } else if (row.threads.lane == 0) {
    losses[row.index] = target.kind == TargetKind::kIgnored ? S(0) : NotANumber<S>();
  }
  if (gradient == nullptr) return;
  const S log_sum = split.sum();
  ForEachPackOfRow<kPack>(row, [&](int64_t v) {
    Numbers<S, kPack> g;
    if (target.kind == TargetKind::kCounts) {
      g = LoadNeighbours<kPack>(logits + row.first + v, aligned);
#pragma unroll
      for (int k = 0; k < kPack; ++k) g[k] = Exp(g[k] - log_sum) - (v + k == target.id ? 1 : 0);
    } else {
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        g[k] = target.kind == TargetKind::kIgnored ? S(0) : NotANumber<S>();
      }
    }
    StoreNeighbours<kPack>(gradient + row.first + v, g, aligned);
  });
}

// One block: *count = max(1, targets that are not ignored).
template <class S>
__global__ void __launch_bounds__(kGroupThreads)
    CountTargetsKernel(const int32_t* targets, int64_t rows, int32_t ignored, S* count) {
  int64_t counted = 0;
  for (int64_t i = threadIdx.x; i < rows; i += kGroupThreads) counted += targets[i] != ignored;
  counted = BlockSum(counted);
  if (threadIdx.x == 0) *count = static_cast<S>(counted > 0 ? counted : 1);
}

// One block: *total (+)= scale · Σ losses, in double.
template <class S, class Total>
__global__ void __launch_bounds__(kGroupThreads)
    SumLossesKernel(const S* losses, int64_t rows, double scale, bool add, Total* total) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < rows; i += kGroupThreads) {
    sum += static_cast<double>(losses[i]);
  }
  sum = BlockSum(sum) * scale;
  if (threadIdx.x != 0) return;
  *total = static_cast<Total>(add ? static_cast<double>(*total) + sum : sum);
}

// out (+)= *dy · x
template <class T, class Out>
struct ScaledGradient {
  const T* x;
  const Sum<T>* dy;
  bool add;
  Out* out;

  template <int n>
  __device__ __forceinline__ void Apply(int64_t at) const {
    Numbers<Sum<T>, n> numbers = LoadNumbers<n>(x + at);
#pragma unroll
    for (int i = 0; i < n; ++i) numbers[i] *= *dy;
    StoreOrAdd<n>(out + at, numbers, add);
  }
};

// Calls launch.template operator()<pack>(blocks, work) for a kernel over the rows of [rows,
// classes], with packs of kPack logits where rows consist of whole ones.
template <int kPack, class Launch>
void ForLossRows(int64_t rows, int64_t classes, const Launch& launch) {
  AxisRows work{.rows = rows, .extent = classes, .inner = 1};
  if (classes % kPack == 0) {
    const dim3 blocks(DealRows(Layout::kRow, kPack, work));
    launch.template operator()<kPack>(blocks, work);
  } else {
    const dim3 blocks(DealRows(Layout::kRow, 1, work));
    launch.template operator()<1>(blocks, work);
  }
}

// ops::CrossEntropyFn on [rows, classes]. Reads the logits once, twice with smoothing.
template <class T>
void CrossEntropy(TargetRule rule, double smoothing, const T* logits, const int32_t* targets,
                  int64_t rows, int64_t classes, Sum<T>* losses, Sum<T>* log_sums,
                  cudaStream_t stream) {
  ForLossRows<kPackWidth<T>>(rows, classes, [&]<int n>(dim3 blocks, const AxisRows& work) {
    gpu::Launch(&CrossEntropyRows<n, T>, blocks, dim3(kGroupThreads), 0, stream, work, rule,
                static_cast<Sum<T>>(smoothing), logits, targets, Aligned<n>(logits), losses,
                log_sums);
  });
}

// ops::CrossEntropyBackwardFn. Reads the logits once, writes their gradient once.
template <class T>
void CrossEntropyBackward(TargetRule rule, double smoothing, const T* logits,
                          const int32_t* targets, const Sum<T>* log_sums, const Sum<T>* dy,
                          int64_t rows, int64_t classes, bool add, T* dlogits,
                          cudaStream_t stream) {
  ForLossRows<kPackWidth<T>>(rows, classes, [&]<int n>(dim3 blocks, const AxisRows& work) {
    gpu::Launch(&CrossEntropyRowsBackward<n, T>, blocks, dim3(kGroupThreads), 0, stream, work, rule,
                static_cast<Sum<T>>(smoothing), logits, targets, log_sums, dy,
                Aligned<n>(logits, dlogits), add, dlogits);
  });
}

// Logits of a pack of the soft kernels: the probabilities beside them are as wide as sums.
template <class T>
inline constexpr int kSoftPack = kPackWidth<Sum<T>>;

// ops::SoftCrossEntropyFn. Reads the logits twice and the probabilities once.
template <class T>
void SoftCrossEntropy(const T* logits, const Sum<T>* probabilities, int64_t rows, int64_t classes,
                      Sum<T>* losses, Sum<T>* log_sums, cudaStream_t stream) {
  ForLossRows<kSoftPack<T>>(rows, classes, [&]<int n>(dim3 blocks, const AxisRows& work) {
    gpu::Launch(&SoftCrossEntropyRows<n, T>, blocks, dim3(kGroupThreads), 0, stream, work, logits,
                probabilities, Aligned<n>(logits, probabilities), losses, log_sums);
  });
}

// ops::SoftCrossEntropyBackwardFn. Reads the probabilities twice and the logits once.
template <class T>
void SoftCrossEntropyBackward(double scale, const T* logits, const Sum<T>* probabilities,
                              const Sum<T>* log_sums, const Sum<T>* dy, int64_t rows,
                              int64_t classes, bool add, T* dlogits, cudaStream_t stream) {
  ForLossRows<kSoftPack<T>>(rows, classes, [&]<int n>(dim3 blocks, const AxisRows& work) {
    gpu::Launch(&SoftCrossEntropyRowsBackward<n, T>, blocks, dim3(kGroupThreads), 0, stream, work,
                scale, logits, probabilities, log_sums, dy,
                Aligned<n>(logits, probabilities, dlogits), add, dlogits);
  });
}

// Losses of rows of logits and, unless `gradient` is null, softmax − p, which may take the logits'
// place. Reads the logits twice with a gradient (the second time from cache, where the rows in
// flight fit), and once without.
template <class S, class G>
void LossAndGradient(TargetRule rule, const S* logits, const int32_t* targets, int64_t rows,
                     int64_t classes, S* losses, G* gradient, cudaStream_t stream) {
  ForLossRows<kPackWidth<S>>(rows, classes, [&]<int n>(dim3 blocks, const AxisRows& work) {
    gpu::Launch(&LossAndGradientRows<n, S, G>, blocks, dim3(kGroupThreads), 0, stream, work, rule,
                logits, targets, Aligned<n>(logits, gradient), losses, gradient);
  });
}

}  // namespace tost::cuda

#endif  // TOST_CUDA_LOSS_CUH_
