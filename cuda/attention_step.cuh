// Decoding with a cache of keys and values (ops/attention.h).
#ifndef TOST_CUDA_ATTENTION_STEP_CUH_
#define TOST_CUDA_ATTENTION_STEP_CUH_

#include "cuda/attention_tiles.cuh"
#include "cuda/rows.cuh"

namespace tost::cuda {

// Positions that one block reads. A constant, so that results do not depend on the grid; short
// enough that a single long sequence occupies the device.
inline constexpr int kStepPositions = kGroupThreads;

// The cache is [batch, heads, capacity, head_dim].
struct StepProblem {
  int64_t heads, capacity, count;  // positions 0 … count−1 are seen
  int head_dim;

  __host__ __device__ int64_t parts() const { return CeilDivide<int64_t>(count, kStepPositions); }
  // Numbers that a part leaves: Σ weight · value, the maximum, Σ weight.
  __host__ __device__ int64_t part_size() const { return head_dim + 2; }
};

// A thread copies one pack of the keys or values of one token: packs are counted along
// [batch, tokens, 2 · width].
template <class T, int kPack>
__global__ void __launch_bounds__(kGroupThreads)
    AttentionFillKernel(StepProblem on, const T* qkv, int64_t batch, int64_t tokens, int64_t first,
                        T* keys, T* values) {
  const int64_t width = on.heads * on.head_dim;
  const int64_t at = (int64_t{blockIdx.x} * kGroupThreads + threadIdx.x) * kPack;
  if (at >= batch * tokens * 2 * width) return;
  const int64_t row = at / (2 * width), channel = at % (2 * width) % width;
  const bool is_key = at % (2 * width) < width;
  const int64_t head = row / tokens * on.heads + channel / on.head_dim;
  const int64_t to =
      (head * on.capacity + first + row % tokens) * on.head_dim + channel % on.head_dim;
  StorePack<kPack>((is_key ? keys : values) + to,
                   LoadPack<kPack>(qkv + row * 3 * width + (is_key ? width : 2 * width) + channel));
}

// A block is one part of one head; thread t owns the weight of the part's position t.
template <class T, int kPack>
__global__ void __launch_bounds__(kGroupThreads)
    AttentionStepPartKernel(StepProblem on, const T* qkv, const T* keys, const T* values,
                            Sum<T>* results) {
  using S = Sum<T>;
  TOST_SHARED(S, weights, [kStepPositions]);
  const int64_t parts = on.parts(), pair = blockIdx.x / parts, part = blockIdx.x % parts;
  const int64_t first = part * kStepPositions, left = on.count - first;
  const int64_t count = left < kStepPositions ? left : kStepPositions;
  const int64_t rows = (pair * on.capacity + first) * on.head_dim;
  const T* query =
      qkv + pair / on.heads * 3 * on.heads * on.head_dim + pair % on.heads * on.head_dim;
  const S scale = static_cast<S>(kLog2E) / Sqrt(static_cast<S>(on.head_dim));

  RowDots<kPack>(query, Rows<T>{keys + rows, on.head_dim, count, on.head_dim}, scale, weights);
  __syncthreads();
  const int mine = static_cast<int>(threadIdx.x);
  const S score = mine < count ? weights[mine] : kLowest<S>;
  const S maximum = BlockMax(score);
  const S weight = mine < count ? Exp2(score - maximum) : S(0);
  weights[mine] = weight;
  const S sum = BlockSum(weight);

  S* result = results + (pair * parts + part) * on.part_size();
  WeightedRowSum<kPack>(weights, Rows<T>{values + rows, on.head_dim, count, on.head_dim},
                        [&](int c, const Numbers<S, kPack>& numbers) {
#pragma unroll
                          for (int e = 0; e < kPack; ++e) result[c + e] = numbers[e];
                        });
  if (mine == 0) {
    result[on.head_dim] = maximum;
    result[on.head_dim + 1] = sum;
  }
}

// A block is one head; a thread owns a channel and adds its parts in order.
template <class T>
__global__ void __launch_bounds__(kGroupThreads)
    AttentionStepJoinKernel(StepProblem on, const Sum<T>* results, T* y) {
  using S = Sum<T>;
  const int64_t parts = on.parts(), pair = blockIdx.x;
  const S* first = results + pair * parts * on.part_size();
  S maximum = kLowest<S>;
  for (int64_t part = 0; part < parts; ++part) {
    maximum = Max(maximum, first[part * on.part_size() + on.head_dim]);
  }
  for (int c = threadIdx.x; c < on.head_dim; c += kGroupThreads) {
    S sum = 0, total = 0;
    for (int64_t part = 0; part < parts; ++part) {
      const S* result = first + part * on.part_size();
      const S decay = Exp2(result[on.head_dim] - maximum);
      sum += decay * result[c];
      total += decay * result[on.head_dim + 1];
    }
    y[pair * on.head_dim + c] = Narrow<T>(sum / total);
  }
}

// Reads and writes the keys and values of the new tokens once.
template <class T, int kPack>
void LaunchAttentionFill(const StepProblem& on, const T* qkv, int64_t batch, int64_t tokens,
                         int64_t first, T* keys, T* values, cudaStream_t stream) {
  const int64_t packs = batch * tokens * 2 * on.heads * on.head_dim / kPack;
  gpu::Launch(AttentionFillKernel<T, kPack>,
              dim3(static_cast<unsigned>(CeilDivide<int64_t>(packs, kGroupThreads))),
              dim3(kGroupThreads), 0, stream, on, qkv, batch, tokens, first, keys, values);
}

// `results` is scratch: part_size() numbers for each part of each of the batch · heads pairs. Reads
// the keys and values seen once.
template <class T, int kPack>
void LaunchAttentionStep(const StepProblem& on, int64_t batch, const T* qkv, const T* keys,
                         const T* values, Sum<T>* results, T* y, cudaStream_t stream) {
  const int64_t pairs = batch * on.heads;
  gpu::Launch(AttentionStepPartKernel<T, kPack>, dim3(static_cast<unsigned>(pairs * on.parts())),
              dim3(kGroupThreads), 0, stream, on, qkv, keys, values, results);
  gpu::Launch(AttentionStepJoinKernel<T>, dim3(static_cast<unsigned>(pairs)), dim3(kGroupThreads),
              0, stream, on, results, y);
}

}  // namespace tost::cuda

#endif  // TOST_CUDA_ATTENTION_STEP_CUH_
