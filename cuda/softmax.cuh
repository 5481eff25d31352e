// Softmax and its logarithm along one axis of any length, and their gradients.
#ifndef TOST_CUDA_SOFTMAX_CUH_
#define TOST_CUDA_SOFTMAX_CUH_

#include <algorithm>

#include "cuda/axis_walk.cuh"
#include "cuda/gpu.h"
#include "cuda/math.cuh"
#include "cuda/pack.cuh"
#include "cuda/thread_groups.cuh"
#include "ops/reduce_functors.h"

namespace tost::cuda {

// A tensor seen from the axis of the softmax: [outer, extent, inner], `rows` = outer · inner
// softmaxes of `extent` elements.
struct AxisRows {
  int64_t rows, extent, inner;
  Divisor columns;  // inner
  int lanes;        // threads of a softmax
};

// One softmax and a thread's place in it: the lanes of a group take its elements, in packs, in
// turn. Packs lie along the axis, so they need inner = 1 (Layout::kRow).
template <Layout layout>
struct RowOfGroup {
  ThreadGroup<layout> threads;
  bool valid;
  int64_t index;  // of the softmax
  int64_t first, extent, inner;

  __device__ __forceinline__ explicit RowOfGroup(const AxisRows& work) : threads(work.lanes) {
    index = static_cast<int64_t>(blockIdx.x) * threads.groups + threads.group;
    const int64_t outer = work.columns.Quotient(index);
    valid = index < work.rows;
    extent = valid ? work.extent : 0;
    inner = work.inner;
    first = outer * work.extent * inner + index - outer * inner;
  }
};

// What the two forms make of x, of the maximum and of Finish(Σ e^(x − maximum)).
struct SoftmaxForm {
  template <class S>
  __device__ __forceinline__ static S Finish(S sum) {
    return S(1) / sum;
  }
  template <class S>
  __device__ __forceinline__ static S Value(S x, S maximum, S finished) {
    return Exp(x - maximum) * finished;
  }
};
struct LogSoftmaxForm {
  template <class S>
  __device__ __forceinline__ static S Finish(S sum) {
    return Log(sum);
  }
  template <class S>
  __device__ __forceinline__ static S Value(S x, S maximum, S finished) {
    return x - maximum - finished;
  }
};

// maximum and sum = Σ e^(x − maximum) of what has been seen. Until the first finite element the
// maximum is −inf and the sum 0, by measuring from 0 instead of from −inf.
template <class S>
struct RunningSoftmax {
  S maximum = ops::functor::Largest::Identity<S>();
  S sum = 0;

  __device__ __forceinline__ static S Origin(S maximum) {
    return maximum == ops::functor::Largest::Identity<S>() ? S(0) : maximum;
  }
  template <int n>
  __device__ __forceinline__ void Add(const Numbers<S, n>& x) {
    S larger = maximum;
#pragma unroll
    for (int i = 0; i < n; ++i) larger = ops::functor::Largest::Combine(larger, x[i]);
    const S origin = Origin(larger);
    sum *= Exp(maximum - origin);
#pragma unroll
    for (int i = 0; i < n; ++i) sum += Exp(x[i] - origin);
    maximum = larger;
  }
};

// A block is groups of lanes; a group owns one softmax.
template <int kPack, Layout layout, class Form, class T>
__global__ void __launch_bounds__(kGroupThreads)
    SoftmaxRows(AxisRows work, const T* x, bool aligned, T* y) {
  using S = Sum<T>;
  const RowOfGroup<layout> row(work);
  const int64_t begin = row.threads.lane * kPack, step = row.threads.lanes * kPack;
  RunningSoftmax<S> own;
  for (int64_t i = begin; i < row.extent; i += step) {
    own.Add(LoadNeighbours<kPack>(x + row.first + i * row.inner, aligned));
  }
  const S maximum = GroupReduce<ops::functor::Largest>(row.threads, own.maximum);
  own.sum *= Exp(own.maximum - RunningSoftmax<S>::Origin(maximum));
  const S sum = GroupReduce<ops::functor::Total>(row.threads, own.sum);
  const S finished = Form::Finish(sum);
  for (int64_t i = begin; i < row.extent; i += step) {
    Numbers<S, kPack> values = LoadNeighbours<kPack>(x + row.first + i * row.inner, aligned);
#pragma unroll
    for (int k = 0; k < kPack; ++k) values[k] = Form::Value(values[k], maximum, finished);
    StoreNeighbours<kPack>(y + row.first + i * row.inner, values, aligned);
  }
}

// The gradient from y, dy and the sum of Term over the axis.
struct SoftmaxGradient {
  template <class S>
  __device__ __forceinline__ static S Term(S y, S dy) {
    return y * dy;
  }
  template <class S>
  __device__ __forceinline__ static S Value(S y, S dy, S sum) {
    return y * (dy - sum);
  }
};
struct LogSoftmaxGradient {
  template <class S>
  __device__ __forceinline__ static S Term(S, S dy) {
    return dy;
  }
  template <class S>
  __device__ __forceinline__ static S Value(S y, S dy, S sum) {
    return dy - Exp(y) * sum;
  }
};

// A block is groups of lanes; a group owns one softmax.
template <int kPack, Layout layout, class Form, class T, class Out>
__global__ void __launch_bounds__(kGroupThreads)
    SoftmaxRowsBackward(AxisRows work, const T* y, const T* dy, bool aligned, bool add, Out* dx) {
  using S = Sum<T>;
  const RowOfGroup<layout> row(work);
  const int64_t begin = row.threads.lane * kPack, step = row.threads.lanes * kPack;
  S sum = 0;
  for (int64_t i = begin; i < row.extent; i += step) {
    const int64_t at = row.first + i * row.inner;
    const Numbers<S, kPack> value = LoadNeighbours<kPack>(y + at, aligned);
    const Numbers<S, kPack> gradient = LoadNeighbours<kPack>(dy + at, aligned);
#pragma unroll
    for (int k = 0; k < kPack; ++k) sum += Form::Term(value[k], gradient[k]);
  }
  sum = GroupReduce<ops::functor::Total>(row.threads, sum);
  for (int64_t i = begin; i < row.extent; i += step) {
    const int64_t at = row.first + i * row.inner;
    const Numbers<S, kPack> value = LoadNeighbours<kPack>(y + at, aligned);
    const Numbers<S, kPack> gradient = LoadNeighbours<kPack>(dy + at, aligned);
    Numbers<S, kPack> result;
#pragma unroll
    for (int k = 0; k < kPack; ++k) result[k] = Form::Value(value[k], gradient[k], sum);
    if (add) {
      const auto before = LoadNeighbours<kPack>(dx + at, aligned);
#pragma unroll
      for (int k = 0; k < kPack; ++k) result[k] += before[k];
    }
    StoreNeighbours<kPack>(dx + at, result, aligned);
  }
}

// Fills in lanes and columns and returns the blocks of a launch.
inline unsigned DealRows(Layout layout, int pack, AxisRows& work) {
  const int64_t packs = CeilDivide<int64_t>(work.extent, pack);
  work.columns = Divisor(work.inner);
  if (layout == Layout::kRow) {
    work.lanes =
        packs > 16 * kWarp ? kGroupThreads : PowerOfTwo(CeilDivide<int64_t>(packs, 4), kWarp);
  } else {
    work.lanes =
        PowerOfTwo(CeilDivide<int64_t>(packs, 4), kGroupThreads / PowerOfTwo(work.inner, kWarp));
  }
  return static_cast<unsigned>(CeilDivide<int64_t>(work.rows, kGroupThreads / work.lanes));
}

// y from x, both [outer, extent, inner] with at least one element. Reads x twice (the second time
// from cache, where a row fits into it), writes y once.
template <class Form, class T>
void RunSoftmax(AxisRows work, const T* x, T* y, cudaStream_t stream) {
  constexpr int kPack = kPackWidth<T>;
  const Layout layout = work.inner == 1 ? Layout::kRow : Layout::kColumn;
  const bool packs = layout == Layout::kRow && work.extent % kPack == 0;
  const dim3 blocks(DealRows(layout, packs ? kPack : 1, work));
  const auto launch = [&](auto kernel, bool aligned) {
    gpu::Launch(kernel, blocks, dim3(kGroupThreads), 0, stream, work, x, aligned, y);
  };
  if (packs) {
    launch(&SoftmaxRows<kPack, Layout::kRow, Form, T>, Aligned<kPack>(x, y));
  } else if (layout == Layout::kRow) {
    launch(&SoftmaxRows<1, Layout::kRow, Form, T>, true);
  } else {
    launch(&SoftmaxRows<1, Layout::kColumn, Form, T>, true);
  }
}

// dx from y and dy, or added to dx. Reads y and dy twice (see above), writes dx once.
template <class Form, class T, class Out>
void RunSoftmaxBackward(AxisRows work, const T* y, const T* dy, bool add, Out* dx,
                        cudaStream_t stream) {
  constexpr int kPack = kAccessBytes / static_cast<int>(std::max(sizeof(T), sizeof(Out)));
  const Layout layout = work.inner == 1 ? Layout::kRow : Layout::kColumn;
  const bool packs = layout == Layout::kRow && work.extent % kPack == 0;
  const dim3 blocks(DealRows(layout, packs ? kPack : 1, work));
  const auto launch = [&](auto kernel, bool aligned) {
    gpu::Launch(kernel, blocks, dim3(kGroupThreads), 0, stream, work, y, dy, aligned, add, dx);
  };
  if (packs) {
    launch(&SoftmaxRowsBackward<kPack, Layout::kRow, Form, T, Out>, Aligned<kPack>(y, dy, dx));
  } else if (layout == Layout::kRow) {
    launch(&SoftmaxRowsBackward<1, Layout::kRow, Form, T, Out>, true);
  } else {
    launch(&SoftmaxRowsBackward<1, Layout::kColumn, Form, T, Out>, true);
  }
}

}  // namespace tost::cuda

#endif  // TOST_CUDA_SOFTMAX_CUH_
