// What the TSSA kernels share: who owns which channels of which tokens, and how threads add up.
//
// A chunk is kTssaChunk tokens of one sequence. A block owns one chunk and some heads (all of them
// where memberships are formed). Its threads stand in kTssaRows rows; a row owns kTssaRowTokens
// successive tokens, a thread of it a pack of channels. So a thread walks its tokens with the sums
// in registers, in either direction, and what it has to know of the other rows of the chunk (four
// numbers a channel) goes through shared memory. If the heads have more packs than a row has
// threads, the block takes them in turns.
//
// Heads are at home in tiles [heads][kTssaChunk] in shared memory; entry (h, t) belongs to lane t
// of one fixed warp. All sums have one order, which the extents of the problem alone decide.
#ifndef TOST_CUDA_TSSA_TILE_CUH_
#define TOST_CUDA_TSSA_TILE_CUH_

#include "cuda/collectives.cuh"
#include "cuda/gpu.h"
#include "cuda/math.cuh"
#include "cuda/pack.cuh"

namespace tost::cuda {

inline constexpr int kTssaRows = 4;
inline constexpr int kTssaRowTokens = 8;
inline constexpr int kTssaChunk = kTssaRows * kTssaRowTokens;
static_assert(kTssaChunk == kWarp, "a warp is a row of a tile of heads");

// Packs in a row of threads: of a block with some heads, and of one with all.
inline constexpr int kTssaSomePacks = 32;
inline constexpr int kTssaAllPacks = 192;
inline constexpr int kTssaSomeThreads = kTssaRows * kTssaSomePacks;
// Of these on a multiprocessor: at most 96 registers a thread, or 128 where 96 would spill.
inline constexpr int kTssaSomeBlocks = 5;
inline constexpr int kTssaWideBlocks = 4;
inline constexpr int kTssaAllThreads = kTssaRows * kTssaAllPacks;

// Channels of a thread: their sums fill one access of 16 bytes. Twice as many would halve the
// threads that hide the latency of the divisions.
template <class T>
inline constexpr int kTssaPack = kPackWidth<Sum<T>>;
// And of a thread that keeps several numbers for each channel and token.
template <int kPack>
inline constexpr int kTssaSmallPack = kPack < 2 ? kPack : 2;

// The extents of w [batch, tokens, heads · head_dim].
struct TssaExtents {
  int64_t batch;
  int64_t tokens;
  int heads;
  int head_dim;

  __host__ __device__ int width() const { return heads * head_dim; }
  __host__ __device__ int chunks() const {
    return static_cast<int>(CeilDivide<int64_t>(tokens, kTssaChunk));
  }
  // A row of sums holds one number for each channel, then one for each head.
  __host__ __device__ int columns() const { return width() + heads; }
  // From row to row: rows begin at whole packs.
  __host__ __device__ int stride() const {
    constexpr int kAlign = kAccessBytes / static_cast<int>(sizeof(float));
    return width() + CeilDivide(heads, kAlign) * kAlign;
  }
};

// How a kernel is launched: x counts chunks of all sequences, y groups of heads.
struct TssaLaunch {
  TssaLaunch(const TssaExtents& extents, int pack, bool all_heads) {
    const int packs_per_head = extents.head_dim / pack;
    const int most = all_heads ? kTssaAllPacks : kTssaSomePacks;
    heads = all_heads ? extents.heads : Clamp(most / packs_per_head, 1, extents.heads);
    const int packs = heads * packs_per_head;
    constexpr int kAlign = kWarp / kTssaRows;  // whole warps
    at_once = CeilDivide(CeilDivide(packs, CeilDivide(packs, most)), kAlign) * kAlign;
    exchange = static_cast<size_t>(at_once * pack * kTssaRows);
    grid = dim3(static_cast<unsigned>(extents.batch * extents.chunks()),
                static_cast<unsigned>(CeilDivide(extents.heads, heads)));
    block = dim3(static_cast<unsigned>(at_once * kTssaRows));
  }

  // Bytes of shared memory for so many exchanges between rows, arrays of partial sums of heads, and
  // tiles.
  template <class S>
  size_t Shared(int exchanges, int partials, int tiles) const {
    const int numbers = at_once | 1;
    return sizeof(S) * (static_cast<size_t>(exchanges) * exchange +
                        static_cast<size_t>(partials * kTssaChunk * numbers) +
                        static_cast<size_t>(tiles * kTssaChunk * heads));
  }

  int heads;    // of a block
  int at_once;  // packs in a row of threads
  size_t exchange;
  dim3 grid, block;

 private:
  static int Clamp(int x, int low, int high) { return x < low ? low : x > high ? high : x; }
};

// A thread's pack of channels in one turn of its block.
struct TssaPlace {
  bool inside;  // false: the turn has fewer packs than a row has threads
  int head;     // among the block's
  int channel;  // the first, among all of the width
};

// Eight tokens of one pack of channels in the type of the sums, zeros beyond the end. bfloat16 is
// widened when it is loaded: a register does not hold two of them.
template <class S, int kPack>
struct TssaTokens {
  Numbers<S, kPack> token[kTssaRowTokens];
  __device__ __forceinline__ S& operator()(int t, int i) { return token[t][i]; }
  __device__ __forceinline__ S operator()(int t, int i) const { return token[t][i]; }
};

// Where a thread stands.
template <int kPack>
struct TssaBlock {
  __device__ TssaBlock(const TssaExtents& extents, int heads_per_block)
      : width(extents.width()),
        all_heads(extents.heads),
        packs_per_head(extents.head_dim / kPack),
        at_once(static_cast<int>(blockDim.x) / kTssaRows),
        row(static_cast<int>(threadIdx.x) / at_once),
        lane(static_cast<int>(threadIdx.x) % at_once) {
    const int chunks = extents.chunks();
    sequence = static_cast<int>(blockIdx.x) / chunks;
    const int64_t begin = int64_t{static_cast<int>(blockIdx.x) % chunks} * kTssaChunk;
    first_token = begin;
    tokens = static_cast<int>(min(int64_t{kTssaChunk}, extents.tokens - begin));
    first_row = sequence * extents.tokens + begin;
    first_head = static_cast<int>(blockIdx.y) * heads_per_block;
    heads = min(heads_per_block, all_heads - first_head);
    packs = heads * packs_per_head;
  }

  // This thread's pack when the row of threads begins at pack `first` of the block's.
  __device__ TssaPlace Place(int first) const {
    const int pack = first + lane;
    const bool inside = pack < packs;
    return {inside, inside ? pack / packs_per_head : 0,
            first_head * packs_per_head * kPack + (inside ? pack * kPack : 0)};
  }
  __device__ bool Has(const TssaPlace& place, int t) const {
    return place.inside && row * kTssaRowTokens + t < tokens;
  }
  // Of element (0, channel) of the thread in a tensor [batch, tokens, width]; the thread's tokens
  // are `width` apart.
  __device__ int64_t Offset(const TssaPlace& place) const {
    return (first_row + row * kTssaRowTokens) * width + place.channel;
  }
  // Of the chunk's row of sums; whole sequences' are at sequence · stride.
  __device__ int64_t SumRow(const TssaExtents& extents) const {
    return int64_t{static_cast<int>(blockIdx.x)} * extents.stride();
  }
  // Of token t and head h of the block in a tensor [batch, tokens, heads].
  __device__ int64_t HeadOffset(int h, int t) const {
    return (first_row + t) * all_heads + first_head + h;
  }

  template <class T>
  __device__ __forceinline__ TssaTokens<Sum<T>, kPack> Load(const TssaPlace& place,
                                                            const T* x) const {
    TssaTokens<Sum<T>, kPack> tokens_of_thread;
    const T* from = x + Offset(place);
#pragma unroll
    for (int t = 0; t < kTssaRowTokens; ++t, from += width) {
      tokens_of_thread.token[t] = Has(place, t) ? LoadPack<kPack>(from) : Numbers<Sum<T>, kPack>{};
    }
    return tokens_of_thread;
  }
  // The pack's numbers in a row of sums.
  template <class S>
  __device__ __forceinline__ Numbers<S, kPack> LoadSums(const TssaPlace& place,
                                                        const S* sums) const {
    return LoadPack<kPack>(sums + place.channel);
  }
  // Multipliers [batch, tokens, width] of the thread's token t; ones without a mask.
  template <class S>
  __device__ __forceinline__ Numbers<S, kPack> LoadMask(const TssaPlace& place, int t,
                                                        const S* mask) const {
    if (mask != nullptr && Has(place, t)) return LoadPack<kPack>(mask + Offset(place) + t * width);
    Numbers<S, kPack> ones;
#pragma unroll
    for (int i = 0; i < kPack; ++i) ones[i] = S(1);
    return ones;
  }

  // ---- Sums over the rows of threads; an exchange is [kTssaRows][at_once · kPack] ----

  template <class S>
  __device__ __forceinline__ void PutRow(S* exchange, const Numbers<S, kPack>& sums) const {
    StorePack(exchange + (row * at_once + lane) * kPack, sums);
  }
  template <class S>
  __device__ __forceinline__ void AddRow(const S* exchange, int from,
                                         Numbers<S, kPack>& sums) const {
    const Numbers<S, kPack> other = LoadPack<kPack>(exchange + (from * at_once + lane) * kPack);
#pragma unroll
    for (int i = 0; i < kPack; ++i) sums[i] += other[i];
  }
  // After a barrier: adds the rows before (after) this one.
  template <class S>
  __device__ __forceinline__ void AddEarlierRows(const S* exchange, Numbers<S, kPack>& sums) const {
    for (int from = 0; from < row; ++from) AddRow(exchange, from, sums);
  }
  template <class S>
  __device__ __forceinline__ void AddLaterRows(const S* exchange, Numbers<S, kPack>& sums) const {
    for (int from = kTssaRows - 1; from > row; --from) AddRow(exchange, from, sums);
  }
  // After a barrier: all rows' sums of the turn's packs into a row of sums.
  template <class S>
  __device__ __forceinline__ void StoreRowSums(int first, const S* exchange, S* sums) const {
    const int count = min(at_once, packs - first) * kPack;
    S* to = sums + (first_head * packs_per_head + first) * kPack;
    for (int c = static_cast<int>(threadIdx.x); c < count; c += static_cast<int>(blockDim.x)) {
      S sum = S(0);
#pragma unroll
      for (int from = 0; from < kTssaRows; ++from) sum += exchange[from * at_once * kPack + c];
      to[c] = sum;
    }
  }

  // ---- Heads ----

  // Calls fn(h, t) for the entries of a tile that belong to this thread. All lanes of a warp call
  // it for the same h.
  template <class Fn>
  __device__ __forceinline__ void ForOwn(Fn fn) const {
    const int warps = static_cast<int>(blockDim.x) / kWarp;
    for (int h = static_cast<int>(threadIdx.x) / kWarp; h < heads; h += warps) {
      fn(h, static_cast<int>(threadIdx.x) % kWarp);
    }
  }
  // Calls fn(h, t, offset) for the chunk's tokens in the order of a tensor [batch, tokens, heads].
  template <class Fn>
  __device__ __forceinline__ void ForHeadsInMemory(Fn fn) const {
    for (int i = static_cast<int>(threadIdx.x); i < tokens * heads;
         i += static_cast<int>(blockDim.x)) {
      fn(i % heads, i / heads, HeadOffset(i % heads, i / heads));
    }
  }
  // A tile from rows in memory, zeros beyond the end.
  template <class S>
  __device__ __forceinline__ void LoadTile(const S* rows, S* tile) const {
    for (int i = static_cast<int>(threadIdx.x); i < kTssaChunk * heads;
         i += static_cast<int>(blockDim.x)) {
      const int h = i % heads, t = i / heads;
      tile[h * kTssaChunk + t] = t < tokens ? rows[HeadOffset(h, t)] : S(0);
    }
  }

  // Partial sums of heads are [kTssaChunk][odd number of packs]: neither writing by pack nor
  // reading by token meets a bank twice.
  __device__ __forceinline__ int PartialStride() const { return at_once | 1; }
  __device__ __forceinline__ int PartialAt(int t) const {
    return (row * kTssaRowTokens + t) * PartialStride() + lane;
  }
  // After a barrier: tile[h][t] += Σ over the turn's packs of head h; only for t < rows.
  template <class S>
  __device__ __forceinline__ void AddHeadSums(int first, const S* partial, S* tile,
                                              int rows = kTssaChunk) const {
    ForOwn([&](int h, int t) {
      if (t >= rows) return;
      const int begin = max(h * packs_per_head - first, 0);
      const int end = min((h + 1) * packs_per_head - first, at_once);
      S sum = S(0);
      for (int k = begin; k < end; ++k) sum += partial[t * PartialStride() + k];
      tile[h * kTssaChunk + t] += sum;
    });
  }

  int width, all_heads, packs_per_head, at_once, row, lane;
  int64_t sequence;
  int64_t first_token;           // of the chunk, in its sequence
  int64_t first_row;             // of the chunk, among all sequences' tokens
  int tokens;                    // of the chunk
  int first_head, heads, packs;  // of the block
};

// Rounded to two units in the last place on a GPU, a third of the instructions of a division.
__device__ __forceinline__ float Reciprocal(float x) { return __fdividef(1.0f, x); }
__device__ __forceinline__ double Reciprocal(double x) { return 1 / x; }

}  // namespace tost::cuda

#endif  // TOST_CUDA_TSSA_TILE_CUH_
