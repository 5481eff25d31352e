// Reductions over any axes. Every sum has one order, given by the extents.
#ifndef TOST_CUDA_REDUCE_CUH_
#define TOST_CUDA_REDUCE_CUH_

#include <algorithm>

#include "cuda/axis_walk.cuh"
#include "cuda/gpu.h"
#include "cuda/math.cuh"
#include "cuda/pack.cuh"
#include "cuda/thread_groups.cuh"

namespace tost::cuda {

// Combines partial results: F of ops/reduce_functors.h without its Map.
template <class F>
struct Partials : F {
  static constexpr bool kCentered = false;
  template <class S>
  __device__ __forceinline__ static S Map(S x, S) {
    return x;
  }
};

// A reduction as its kernels see it. x is read at kept(output) + reduced(element); the innermost
// axis of x belongs to `reduced` (Layout::kRow) or to `kept` (Layout::kColumn).
//
// The elements of an output are cut into `parts` of `part` elements, each reduced by a group of
// threads; result output · parts + part (kRow) or part · outputs + output (kColumn) is written.
struct Reduction {
  AxisWalk<1> kept, reduced;
  int64_t outputs, elements;  // elements of x that go into one output
  int64_t part;
  Divisor parts;
  int lanes;  // of a group
};

// out = scale · result, or += when `add`.
template <class S, class Out>
__device__ __forceinline__ void WriteScaled(S result, S scale, bool add, Out* out) {
  const Sum<Out> scaled = static_cast<Sum<Out>>(result * scale);
  *out = Narrow<Out>(add ? Widen(*out) + scaled : scaled);
}

// A block is groups of lanes that are neighbouring threads; a group owns a part of one result, and
// its lanes take the packs of that part in turn.
template <int kPack, class F, class T, class Out>
__global__ void __launch_bounds__(kGroupThreads)
    ReduceRows(Reduction work, const T* x, const Sum<T>* center, Sum<T> scale, bool aligned,
               bool add, Out* out) {
  using S = Sum<T>;
  const ThreadGroup<Layout::kRow> threads(work.lanes);
  const int64_t result = static_cast<int64_t>(blockIdx.x) * threads.groups + threads.group;
  const int64_t output = work.parts.Quotient(result);
  const bool valid = output < work.outputs;
  const int64_t begin = (result - output * work.parts.value()) * work.part;
  const int64_t end = valid ? min(begin + work.part, work.elements) : begin;
  const T* const origin = x + (valid ? work.kept.Offset(output) : 0);
  const S c = F::kCentered && valid ? center[output] : S(0);

  Numbers<S, kPack> sums;
#pragma unroll
  for (int i = 0; i < kPack; ++i) sums[i] = F::template Identity<S>();
  for (int64_t at = begin + threads.lane * kPack; at < end; at += threads.lanes * kPack) {
    const Numbers<S, kPack> values =
        LoadNeighbours<kPack>(origin + work.reduced.Offset(at), aligned);
#pragma unroll
    for (int i = 0; i < kPack; ++i) sums[i] = F::Combine(sums[i], F::Map(values[i], c));
  }
#pragma unroll
  for (int i = 1; i < kPack; ++i) sums[0] = F::Combine(sums[0], sums[i]);
  const S total = GroupReduce<F>(threads, sums[0]);
  if (valid && threads.lane == 0) WriteScaled(total, scale, add, out + result);
}

// A block is groups of lanes, neighbouring threads being neighbouring groups; a group owns a part
// of kPack neighbouring results, and its lanes take the rows of that part in turn.
template <int kPack, class F, class T, class Out>
__global__ void __launch_bounds__(kGroupThreads)
    ReduceColumns(Reduction work, const T* x, const Sum<T>* center, Sum<T> scale, bool aligned,
                  bool add, Out* out) {
  using S = Sum<T>;
  const ThreadGroup<Layout::kColumn> threads(work.lanes);
  const int64_t strip = work.parts.Quotient(blockIdx.x);
  const int64_t part = blockIdx.x - strip * work.parts.value();
  const int64_t output = (strip * threads.groups + threads.group) * kPack;
  const bool valid = output < work.outputs;
  const int64_t begin = part * work.part;
  const int64_t end = valid ? min(begin + work.part, work.elements) : begin;
  const T* const origin = x + (valid ? work.kept.Offset(output) : 0);

  Numbers<S, kPack> sums, c;
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    sums[i] = F::template Identity<S>();
    c[i] = F::kCentered && valid ? center[output + i] : S(0);
  }
  for (int64_t row = begin + threads.lane; row < end; row += threads.lanes) {
    const Numbers<S, kPack> values =
        LoadNeighbours<kPack>(origin + work.reduced.Offset(row), aligned);
#pragma unroll
    for (int i = 0; i < kPack; ++i) sums[i] = F::Combine(sums[i], F::Map(values[i], c[i]));
  }
  sums = GroupReduce<F>(threads, sums);
  if (!valid || threads.lane != 0) return;
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    WriteScaled(sums[i], scale, add, out + part * work.outputs + output + i);
  }
}

// Blocks that a reduction is cut into where its results alone are fewer, and the least number of
// packs that a thread then reads.
inline constexpr int64_t kWantedBlocks = 1024;
inline constexpr int64_t kLeastPacks = 8;

// Cuts `work` into parts, for packs of `pack` elements, and returns the blocks of its launch.
// max_parts = 1 leaves each result whole.
inline int64_t CutRows(int pack, int64_t max_parts, Reduction& work) {
  const int64_t packs = CeilDivide<int64_t>(work.elements, pack);
  work.lanes =
      packs > 16 * kWarp ? kGroupThreads : PowerOfTwo(CeilDivide<int64_t>(packs, 4), kWarp);
  const int64_t groups = kGroupThreads / work.lanes;
  const int64_t least = work.lanes * kLeastPacks;
  int64_t parts = std::min(
      {CeilDivide(packs, least), max_parts, CeilDivide(kWantedBlocks * groups, work.outputs)});
  parts = std::max<int64_t>(parts, 1);
  work.part = std::max<int64_t>(CeilDivide(packs, parts), 1) * pack;
  work.parts = Divisor(std::max<int64_t>(CeilDivide(work.elements, work.part), 1));
  return CeilDivide(work.outputs * work.parts.value(), groups);
}
inline int64_t CutColumns(int pack, int64_t max_parts, Reduction& work) {
  const int64_t packs = CeilDivide<int64_t>(work.outputs, pack);
  // A warp reads neighbours where there are so many; further threads divide the rows.
  const int columns = PowerOfTwo(packs, kWarp);
  work.lanes = PowerOfTwo(CeilDivide<int64_t>(work.elements, 4), kGroupThreads / columns);
  const int64_t strips = CeilDivide<int64_t>(packs, kGroupThreads / work.lanes);
  int64_t parts = std::min({CeilDivide(work.elements, work.lanes * kLeastPacks), max_parts,
                            CeilDivide(kWantedBlocks, strips)});
  parts = std::max<int64_t>(parts, 1);
  work.part = std::max<int64_t>(CeilDivide(work.elements, parts), 1);
  work.parts = Divisor(std::max<int64_t>(CeilDivide(work.elements, work.part), 1));
  return strips * work.parts.value();
}

// How the final results of a reduction are written.
template <class S, class Out>
struct Results {
  S scale;
  bool add;
  Out* out;
};

template <class F, int kPack, class T, class Out>
void LaunchReduce(Layout layout, const Reduction& work, int64_t blocks, const T* x,
                  const Sum<T>* center, const Results<Sum<T>, Out>& to, cudaStream_t stream) {
  const bool aligned = Aligned<kPack>(x);
  gpu::Launch(
      layout == Layout::kRow ? &ReduceRows<kPack, F, T, Out> : &ReduceColumns<kPack, F, T, Out>,
      dim3(static_cast<unsigned>(blocks)), dim3(kGroupThreads), 0, stream, work, x, center,
      to.scale, aligned, to.add, to.out);
}

// One output per row (or column) of `partial`: [outputs, parts] (or [parts, outputs]).
inline Reduction ReductionOfPartials(Layout layout, int64_t outputs, int64_t parts) {
  Reduction work{};
  work.outputs = outputs;
  work.elements = parts;
  const bool rows = layout == Layout::kRow;
  work.kept.AddOutermost(outputs, {rows ? parts : 1});
  work.reduced.AddOutermost(parts, {rows ? 1 : outputs});
  return work;
}

// out = scale · F over the reduced axes of x; work.{kept, reduced, outputs, elements} are given,
// outputs >= 1. `inner` is the extent of x's innermost merged axis. scratch(n) gives room for n
// partial results, which a reduction over many elements with few outputs needs. Reads x once.
template <class F, class T, class Out, class Scratch>
void RunReduction(Layout layout, Reduction work, int64_t inner, const T* x, const Sum<T>* center,
                  const Results<Sum<T>, Out>& to, cudaStream_t stream, const Scratch& scratch) {
  using S = Sum<T>;
  constexpr int kPack = kPackWidth<T>;
  const bool rows = layout == Layout::kRow;
  const bool packs = inner % kPack == 0;
  constexpr int64_t kAnyParts = int64_t{1} << 62;
  const int64_t blocks = rows ? CutRows(packs ? kPack : 1, kAnyParts, work)
                              : CutColumns(packs ? kPack : 1, kAnyParts, work);
  const auto launch = [&](const auto& results) {
    if (packs) {
      LaunchReduce<F, kPack>(layout, work, blocks, x, center, results, stream);
    } else {
      LaunchReduce<F, 1>(layout, work, blocks, x, center, results, stream);
    }
  };
  const int64_t parts = work.parts.value();
  if (parts == 1) return launch(to);
  S* const partial = scratch(parts * work.outputs);
  launch(Results<S, S>{S(1), false, partial});
  Reduction second = ReductionOfPartials(layout, work.outputs, parts);
  const int64_t second_blocks = rows ? CutRows(1, 1, second) : CutColumns(1, 1, second);
  LaunchReduce<Partials<F>, 1>(layout, second, second_blocks, static_cast<const S*>(partial),
                               static_cast<const S*>(nullptr), to, stream);
}

}  // namespace tost::cuda

#endif  // TOST_CUDA_REDUCE_CUH_
