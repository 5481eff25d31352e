// y[i] = fn(a[i], b[i], …) over operands that broadcast: the one kernel under all elementwise ops.
#ifndef TOST_CUDA_ELEMENTWISE_CUH_
#define TOST_CUDA_ELEMENTWISE_CUH_

#include <algorithm>
#include <utility>

#include "cuda/axis_walk.cuh"
#include "cuda/gpu.h"
#include "cuda/math.cuh"
#include "cuda/pack.cuh"

namespace tost::cuda {

// What a kernel does with the functors of ops/{unary,binary,reduce}_functors.h: named types, since
// the name of a kernel contains them.
template <class F>
struct ForwardOf {
  F f;
  template <class... S>
  __device__ __forceinline__ auto operator()(S... x) const {
    return f.Forward(x...);
  }
};
template <class F>
struct BackwardOf {
  F f;
  template <class S>
  __device__ __forceinline__ S operator()(S saved, S dy) const {
    return f.Backward(saved, dy);
  }
};
template <class F>
struct LeftOf {
  F f;
  template <class S>
  __device__ __forceinline__ S operator()(S a, S b, S dy) const {
    return f.Left(a, b, dy);
  }
};
template <class F>
struct RightOf {
  F f;
  template <class S>
  __device__ __forceinline__ S operator()(S a, S b, S dy) const {
    return f.Right(a, b, dy);
  }
};
template <class F>
struct SlopeOf {
  template <class S>
  __device__ __forceinline__ S operator()(S x, S center, S weight) const {
    return weight * F::Slope(x, center);
  }
};
struct Choose {
  template <class S>
  __device__ __forceinline__ S operator()(S condition, S yes, S no) const {
    return condition != S(0) ? yes : no;
  }
};
struct Scaled {
  double scale;
  template <class S>
  __device__ __forceinline__ S operator()(S x) const {
    return static_cast<S>(scale) * x;
  }
};

// The next n elements of an operand, or n times the one that it repeats.
template <int n, class T>
__device__ __forceinline__ Numbers<Sum<T>, n> LoadOperand(const T* from, bool repeats) {
  if (!repeats) return LoadPack<n>(from);
  Numbers<Sum<T>, n> numbers;
  const Sum<T> value = Widen(*from);
#pragma unroll
  for (int i = 0; i < n; ++i) numbers[i] = value;
  return numbers;
}

// to[i] = from[i], or += when `add`, rounded once.
template <int n, class T, class S>
__device__ __forceinline__ void StoreResult(T* to, Numbers<S, n> numbers, bool add) {
  if (add) {
    const Numbers<Sum<T>, n> before = LoadPack<n>(to);
#pragma unroll
    for (int i = 0; i < n; ++i) numbers[i] += before[i];
  }
  StorePack<n>(to, numbers);
}

template <int n, class Fn, class S, class... In>
__device__ __forceinline__ Numbers<S, n> MapPack(const Fn& fn, const In&... in) {
  Numbers<S, n> result;
#pragma unroll
  for (int i = 0; i < n; ++i) result[i] = static_cast<S>(fn(in[i]...));
  return result;
}

template <int n, class Fn, class Out, class... In, size_t... k>
__device__ __forceinline__ void MapAt(const Fn& fn, const AxisWalk<sizeof...(In)>& walk,
                                      const int64_t (&offset)[sizeof...(In)], int64_t step,
                                      bool add, Out* out, std::index_sequence<k...>,
                                      const In*... in) {
  StoreResult<n>(
      out + step,
      MapPack<n, Fn, Sum<Out>>(fn, LoadOperand<n>(in + offset[k] + step * walk.strides[k][0],
                                                  walk.strides[k][0] == 0)...),
      add);
}

inline constexpr int kMapThreads = 256;

// A thread owns a pack of kPack neighbouring elements of the result; a pack does not leave the
// innermost axis, but the last one may be cut short where there is only one axis.
template <int kPack, class Fn, class Out, class... In>
__global__ void __launch_bounds__(kMapThreads)
    MapElements(AxisWalk<sizeof...(In)> walk, int64_t count, Fn fn, bool add, Out* out,
                const In*... in) {
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * kMapThreads + threadIdx.x) * kPack;
  if (first >= count) return;
  int64_t offset[sizeof...(In)];
  walk.Offsets(first, offset);
  constexpr std::index_sequence_for<In...> kOperands;
  if (first + kPack <= count) {
    MapAt<kPack>(fn, walk, offset, 0, add, out + first, kOperands, in...);
  } else {
    for (int64_t i = 0; first + i < count; ++i) {
      MapAt<1>(fn, walk, offset, i, add, out + first, kOperands, in...);
    }
  }
}

// out = fn(in…), or += when `add`, for `count` >= 1 elements of a contiguous `out`. walk: the axes
// of out with the operands' strides, along the innermost 1 or 0. Reads each operand once (more
// often, from cache, where it repeats), writes out once.
template <class Fn, class Out, class... In>
void Map(const AxisWalk<sizeof...(In)>& walk, int64_t count, const Fn& fn, bool add, Out* out,
         cudaStream_t stream, const In*... in) {
  constexpr int kWidest = static_cast<int>(std::max({sizeof(Out), sizeof(In)...}));
  constexpr int kPack = kAccessBytes / kWidest;
  int operand = 0;
  bool packs = (walk.rank == 1 || walk.extents[0].value() % kPack == 0) && Aligned<kPack>(out);
  ((packs = packs && (walk.strides[operand++][0] == 0 || Aligned<kPack>(in))), ...);
  const auto blocks = [&](int64_t pack) {
    return static_cast<unsigned>(CeilDivide<int64_t>(count, pack * kMapThreads));
  };
  if (packs) {
    gpu::Launch(&MapElements<kPack, Fn, Out, In...>, dim3(blocks(kPack)), dim3(kMapThreads), 0,
                stream, walk, count, fn, add, out, in...);
  } else {
    gpu::Launch(&MapElements<1, Fn, Out, In...>, dim3(blocks(1)), dim3(kMapThreads), 0, stream,
                walk, count, fn, add, out, in...);
  }
}

}  // namespace tost::cuda

#endif  // TOST_CUDA_ELEMENTWISE_CUH_
