// A block divided into groups of equal size, one for each result that is formed along an axis.
#ifndef TOST_CUDA_THREAD_GROUPS_CUH_
#define TOST_CUDA_THREAD_GROUPS_CUH_

#include "cuda/collectives.cuh"
#include "cuda/gpu.h"
#include "cuda/math.cuh"
#include "cuda/pack.cuh"

namespace tost::cuda {

inline constexpr int kGroupThreads = 256;  // of a block

// The smallest power of two >= n, within [1, limit].
__host__ __device__ inline int PowerOfTwo(int64_t n, int limit) {
  int power = 1;
  while (power < n && power < limit) power *= 2;
  return power;
}

// How the threads of a block are dealt to its groups. `lanes` is a power of two.
//
//   kRow     the elements of one result are neighbours in memory: a group's lanes are
//            neighbouring threads, at most a warp or the whole block
//   kColumn  neighbours in memory belong to different results: neighbouring threads are the same
//            lane of neighbouring groups
enum class Layout { kRow, kColumn };

template <Layout layout>
struct ThreadGroup {
  int lanes, groups;  // of a lane's group; of the block
  int lane, group;    // this thread's

  __device__ __forceinline__ explicit ThreadGroup(int lanes_of_group)
      : lanes(lanes_of_group), groups(kGroupThreads / lanes_of_group) {
    const int thread = static_cast<int>(threadIdx.x);
    lane = layout == Layout::kRow ? thread % lanes : thread / groups;
    group = layout == Layout::kRow ? thread / lanes : thread % groups;
  }
};

// The combination of the group's values, the same in all lanes, in an order that depends on the
// number of lanes only. All threads of the block call it; it ends with a barrier where it uses
// shared memory.
template <class Operation, class S>
__device__ __forceinline__ S GroupReduce(const ThreadGroup<Layout::kRow>& threads, S value) {
  if (threads.lanes > kWarp) return BlockReduce<Operation>(value);
  for (int distance = threads.lanes / 2; distance > 0; distance /= 2) {
    value = Operation::Combine(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}
template <class Operation, class S, int n>
__device__ __forceinline__ Numbers<S, n> GroupReduce(const ThreadGroup<Layout::kColumn>& threads,
                                                     Numbers<S, n> values) {
  TOST_SHARED(S, shared, [n][kGroupThreads]);
  const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int i = 0; i < n; ++i) shared[i][thread] = values[i];
  __syncthreads();
  for (int half = threads.lanes / 2; half > 0; half /= 2) {
    if (threads.lane < half) {
#pragma unroll
      for (int i = 0; i < n; ++i) {
        values[i] = Operation::Combine(values[i], shared[i][thread + half * threads.groups]);
        shared[i][thread] = values[i];
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < n; ++i) values[i] = shared[i][threads.group];
  __syncthreads();
  return values;
}
template <class Operation, class S>
__device__ __forceinline__ S GroupReduce(const ThreadGroup<Layout::kColumn>& threads, S value) {
  return GroupReduce<Operation>(threads, Numbers<S, 1>{{value}})[0];
}

}  // namespace tost::cuda

#endif  // TOST_CUDA_THREAD_GROUPS_CUH_
