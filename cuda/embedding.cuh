// Token and position embeddings (ops/embedding.h).
//
// The gradient of the table is a sum over the tokens of each id, with neither atomics nor an order
// that the hardware chooses: a stable radix sort brings equal ids together in the order of their
// tokens, stretches of fixed length of the sorted tokens are added up in parallel, and the sums of
// ids that cross from one stretch into the next are put together in a last pass.
#ifndef TOST_CUDA_EMBEDDING_CUH_
#define TOST_CUDA_EMBEDDING_CUH_

#include "cuda/collectives.cuh"
#include "cuda/elements.cuh"

namespace tost::cuda {

// y = table[id] (+ positions[first_position + token mod length]); NaN for an id outside [0, V).
template <class T>
struct EmbeddingBody {
  int64_t columns;
  int64_t vocabulary;
  int64_t length;  // tokens of a sequence
  const int32_t* ids;
  const T* table;
  const T* positions;  // null: none; else the row of the first position
  T* y;

  template <int n>
  __device__ __forceinline__ void Apply(int64_t offset) const {
    const int64_t token = offset / columns, column = offset % columns;
    const int64_t id = ids[token];
    Numbers<Sum<T>, n> sum;
    if (id >= 0 && id < vocabulary) {
      sum = LoadPack<n>(table + id * columns + column);
    } else {
#pragma unroll
      for (int i = 0; i < n; ++i) sum[i] = static_cast<Sum<T>>(__builtin_nanf(""));
    }
    if (positions != nullptr) {
      const Numbers<Sum<T>, n> place = LoadPack<n>(positions + token % length * columns + column);
#pragma unroll
      for (int i = 0; i < n; ++i) sum[i] += place[i];
    }
    StorePack<n>(y + offset, sum);
  }
};

// Reads a row of the table and of positions per token, writes y once.
template <class T>
void Embedding(const EmbeddingBody<T>& body, int64_t tokens, cudaStream_t stream) {
  LaunchElements<kPackWidth<T>>(PacksFit<T>(body.columns, body.table, body.positions, body.y),
                                tokens * body.columns, stream, body);
}

// ---- The stable sort of tokens by id ----

// Digits of 8 bits: a thread of a block for each.
inline constexpr int kSortBits = 8, kSortDigits = 1 << kSortBits;
inline constexpr int kSortChunk = 1024;  // tokens of a block
inline constexpr int kScanThreads = 1024;

struct SortKeys {
  const int32_t* ids;
  int vocabulary;

  // Ids outside [0, vocabulary) sort behind all others.
  __device__ __forceinline__ int Of(int token) const {
    const int id = ids[token];
    return id >= 0 && id < vocabulary ? id : vocabulary;
  }
  __device__ __forceinline__ int Digit(int token, int shift) const {
    return Of(token) >> shift & (kSortDigits - 1);
  }
};

// The token in a place of an order that a pass begins with; null: the tokens' own.
__device__ __forceinline__ int TokenAt(const int32_t* order, int place) {
  return order == nullptr ? place : order[place];
}

// A block owns a chunk of places, a thread a digit, of which it counts the places.
// counts: [digits, chunks]
__global__ inline void __launch_bounds__(kSortDigits)
    CountDigitsKernel(SortKeys keys, const int32_t* __restrict__ order, int tokens, int shift,
                      int32_t* __restrict__ counts) {
  TOST_SHARED(int, digits, [kSortChunk]);
  const int first = static_cast<int>(blockIdx.x) * kSortChunk;
  const int size = tokens - first < kSortChunk ? tokens - first : kSortChunk;
  for (int i = threadIdx.x; i < size; i += kSortDigits) {
    digits[i] = keys.Digit(TokenAt(order, first + i), shift);
  }
  __syncthreads();
  const int own = threadIdx.x;
  int count = 0;
#pragma unroll 8
  for (int i = 0; i < size; ++i) count += digits[i] == own ? 1 : 0;
  counts[int64_t{threadIdx.x} * gridDim.x + blockIdx.x] = count;
}

// One block; a thread owns a stretch of counts, which become the sums of all before them.
__global__ inline void __launch_bounds__(kScanThreads)
    ExclusiveSumKernel(int32_t* __restrict__ counts, int count) {
  const int length = CeilDivide(count, kScanThreads);
  const int first = static_cast<int>(threadIdx.x) * length;
  const int last = count < first + length ? count : first + length;
  int own = 0;
  for (int i = first; i < last; ++i) own += counts[i];
  int before = BlockInclusiveSum(own) - own;
  for (int i = first; i < last; ++i) {
    const int value = counts[i];
    counts[i] = before;
    before += value;
  }
}

// A block owns a chunk of places, a thread a digit, whose tokens it moves in their order to
// the places that begin at starts[digit, chunk].
__global__ inline void __launch_bounds__(kSortDigits)
    MoveByDigitKernel(SortKeys keys, const int32_t* __restrict__ order, int tokens, int shift,
                      const int32_t* __restrict__ starts, int32_t* __restrict__ sorted) {
  TOST_SHARED(int, digits, [kSortChunk]);
  TOST_SHARED(int, held, [kSortChunk]);
  const int first = static_cast<int>(blockIdx.x) * kSortChunk;
  const int size = tokens - first < kSortChunk ? tokens - first : kSortChunk;
  for (int i = threadIdx.x; i < size; i += kSortDigits) {
    held[i] = TokenAt(order, first + i);
    digits[i] = keys.Digit(held[i], shift);
  }
  __syncthreads();
  const int own = threadIdx.x;
  int place = starts[int64_t{threadIdx.x} * gridDim.x + blockIdx.x];
  for (int i = 0; i < size; ++i) {
    if (digits[i] == own) sorted[place++] = held[i];
  }
}

inline int SortChunks(int tokens) { return CeilDivide(tokens, kSortChunk); }

// Sorts the tokens by id; equal ids keep their order. `counts` holds kSortDigits · SortChunks, `a`
// and `b` a number per token. Returns which of the two has the result.
inline const int32_t* SortTokens(const SortKeys& keys, int tokens, int32_t* counts, int32_t* a,
                                 int32_t* b, cudaStream_t stream) {
  const int chunks = SortChunks(tokens);
  const int32_t* order = nullptr;
  for (int shift = 0; shift == 0 || keys.vocabulary >> shift != 0; shift += kSortBits) {
    const dim3 grid(static_cast<unsigned>(chunks)), block(kSortDigits);
    gpu::Launch(&CountDigitsKernel, grid, block, 0, stream, keys, order, tokens, shift, counts);
    gpu::Launch(&ExclusiveSumKernel, dim3(tokens > 0 ? 1 : 0), dim3(kScanThreads), 0, stream,
                counts, chunks * kSortDigits);
    gpu::Launch(&MoveByDigitKernel, grid, block, 0, stream, keys, order, tokens, shift, counts, a);
    order = a;
    a = b;
    b = const_cast<int32_t*>(order);
  }
  return order;
}

// ---- The gradient of the table ----

inline constexpr int kStretch = 32;  // sorted tokens that a block adds up
inline constexpr int kStretchThreads = 128;

// The sorted tokens in stretches of kStretch; a run is the places of one id.
struct SortedTokens {
  SortKeys keys;
  const int32_t* order;
  int tokens;

  __device__ __forceinline__ int Key(int place) const { return keys.Of(order[place]); }
  __device__ __forceinline__ int End(int stretch) const {
    const int end = (stretch + 1) * kStretch;
    return end < tokens ? end : tokens;
  }
  // Whether the run at the stretch's first place began before it.
  __device__ __forceinline__ bool EntersAt(int stretch) const {
    const int first = stretch * kStretch;
    return first > 0 && Key(first - 1) == Key(first);
  }
  // Whether the run at the stretch's last place goes on behind it.
  __device__ __forceinline__ bool LeavesAt(int stretch) const {
    const int end = End(stretch);
    return end < tokens && Key(end) == Key(end - 1);
  }
};

// Where the parts of runs that cross borders wait for each other: [stretches, 2, columns], the part
// of a run that enters the stretch and of one that begins in it and leaves it.
enum class RunPart { kEntering, kLeaving };
__host__ __device__ __forceinline__ int64_t PartOffset(int stretch, RunPart part, int64_t columns) {
  return (2 * int64_t{stretch} + (part == RunPart::kLeaving ? 1 : 0)) * columns;
}

// A block owns a stretch, a thread packs of columns; it adds up each run of the stretch and adds
// the sum to the table's gradient where the run is whole.
template <class T, class Out, int kPack>
__global__ void __launch_bounds__(kStretchThreads)
    AddRunsKernel(SortedTokens sorted, const T* __restrict__ dy, int64_t columns,
                  Sum<T>* __restrict__ parts, Out* __restrict__ dtable) {
  using S = Sum<T>;
  TOST_SHARED(int, key, [kStretch]);
  TOST_SHARED(int, token, [kStretch]);
  const int stretch = blockIdx.x, first = stretch * kStretch;
  const int size = sorted.End(stretch) - first;
  const int lane = threadIdx.x;
  if (lane < size) {
    token[lane] = sorted.order[first + lane];
    key[lane] = sorted.Key(first + lane);
  }
  __syncthreads();
  const bool enters = sorted.EntersAt(stretch), leaves = sorted.LeavesAt(stretch);
  for (int64_t column = int64_t{threadIdx.x} * kPack; column < columns;
       column += kStretchThreads * kPack) {
    Numbers<S, kPack> sum{};
    int begin = 0;  // of the run, in the stretch
#pragma unroll 4
    for (int i = 0; i < size; ++i) {
      const Numbers<S, kPack> term = LoadPack<kPack>(dy + token[i] * columns + column);
#pragma unroll
      for (int k = 0; k < kPack; ++k) sum[k] += term[k];
      const bool last = i + 1 == size;
      if (!last && key[i + 1] == key[i]) continue;
      if (begin == 0 && enters) {
        StoreNumbers<kPack>(parts + PartOffset(stretch, RunPart::kEntering, columns) + column, sum);
      } else if (last && leaves) {
        StoreNumbers<kPack>(parts + PartOffset(stretch, RunPart::kLeaving, columns) + column, sum);
      } else if (key[i] < sorted.keys.vocabulary) {
        StoreOrAdd<kPack>(dtable + key[i] * columns + column, sum, true);
      }
      sum = {};
      begin = i + 1;
    }
  }
}

// A block owns a stretch in which a run begins that leaves it, and follows the run through the
// stretches behind; a thread owns columns.
template <class S, class Out>
__global__ void __launch_bounds__(kStretchThreads)
    JoinRunsKernel(SortedTokens sorted, const S* __restrict__ parts, int64_t columns,
                   Out* __restrict__ dtable) {
  const int stretch = blockIdx.x;
  const int key = sorted.Key(sorted.End(stretch) - 1);
  const bool begins_here = !sorted.EntersAt(stretch) || sorted.Key(stretch * kStretch) != key;
  if (!begins_here || !sorted.LeavesAt(stretch) || key == sorted.keys.vocabulary) return;
  const int last_stretch = CeilDivide(sorted.tokens, kStretch) - 1;
  int last = stretch + 1;  // the run's last stretch
  while (last < last_stretch && sorted.Key((last + 1) * kStretch) == key) ++last;
  for (int64_t column = threadIdx.x; column < columns; column += kStretchThreads) {
    S sum = parts[PartOffset(stretch, RunPart::kLeaving, columns) + column];
#pragma unroll 4
    for (int next = stretch + 1; next <= last; ++next) {
      sum += parts[PartOffset(next, RunPart::kEntering, columns) + column];
    }
    Out& out = dtable[key * columns + column];
    out = Narrow<Out>(Widen(out) + sum);
  }
}

// dtable[v] += Σ of dy over the tokens of id v. `parts` holds PartOffset(stretches, …) numbers.
// Reads dy once, reads and writes the rows of dtable that have tokens.
template <class T, class Out>
void AddTokensToTable(const SortedTokens& sorted, const T* dy, int64_t columns, Sum<T>* parts,
                      Out* dtable, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(CeilDivide(sorted.tokens, kStretch)));
  const bool packs_fit = PacksFit<T>(columns, dy, parts, dtable);
  gpu::Launch(packs_fit ? &AddRunsKernel<T, Out, kPackWidth<T>> : &AddRunsKernel<T, Out, 1>, grid,
              dim3(kStretchThreads), 0, stream, sorted, dy, columns, parts, dtable);
  gpu::Launch(&JoinRunsKernel<Sum<T>, Out>, grid, dim3(kStretchThreads), 0, stream, sorted, parts,
              columns, dtable);
}

// ---- The gradient of the positions ----

// dpositions[p] (+)= Σ_b dy[b, p − first_position], 0 where no token is.
template <class T, class Out>
struct PositionsBackwardBody {
  int64_t columns;
  int64_t length;  // tokens of a sequence
  int64_t batch;
  int64_t first_position;
  const T* dy;
  bool add;
  Out* dpositions;

  template <int n>
  __device__ __forceinline__ void Apply(int64_t offset) const {
    const int64_t from = offset - first_position * columns;  // in a sequence
    Numbers<Sum<T>, n> sum{};
    if (from >= 0 && from < length * columns) {
#pragma unroll 4
      for (int64_t b = 0; b < batch; ++b) {
        const Numbers<Sum<T>, n> term = LoadPack<n>(dy + b * length * columns + from);
#pragma unroll
        for (int i = 0; i < n; ++i) sum[i] += term[i];
      }
    }
    StoreOrAdd<n>(dpositions + offset, sum, add);
  }
};

// Reads dy once, writes dpositions once (and reads it to add).
template <class T, class Out>
void PositionsBackward(const PositionsBackwardBody<T, Out>& body, int64_t positions,
                       cudaStream_t stream) {
  LaunchElements<kPackWidth<T>>(PacksFit<T>(body.columns, body.dy, body.dpositions),
                                positions * body.columns, stream, body);
}

}  // namespace tost::cuda

#endif  // TOST_CUDA_EMBEDDING_CUH_
