// Where heads meet: the softmax over heads and its gradient, and the pass that forms memberships
// and adds up weighted energies, for both operators.
#ifndef TOST_CUDA_TSSA_MEMBERSHIPS_CUH_
#define TOST_CUDA_TSSA_MEMBERSHIPS_CUH_

#include "cuda/tssa_tile.cuh"

namespace tost::cuda {

// The limits of ops/tssa.h, which a kernel file cannot include.
template <class S>
inline constexpr S kTssaMass = S(1e-8);
template <class S>
inline constexpr S kTssaLeastEnergy = S(1e-24);
template <class S>
inline constexpr S kCausalTssaLeastEnergy = S(1e-12);

// logits[h][t] → memberships, in place. The block has all heads, each thread has written its own
// logits; returns after a barrier. `scratch` is one more tile.
template <int kPack, class S>
__device__ void TssaSoftmax(const TssaBlock<kPack>& block, S* logits, S* scratch) {
  __syncthreads();
  block.ForOwn([&](int h, int t) {
    S largest = kLowest<S>;
    for (int k = 0; k < block.heads; ++k) largest = Max(largest, logits[k * kTssaChunk + t]);
    scratch[h * kTssaChunk + t] = Exp(logits[h * kTssaChunk + t] - largest);
  });
  __syncthreads();
  block.ForOwn([&](int h, int t) {
    S total = S(0);
    for (int k = 0; k < block.heads; ++k) total += scratch[k * kTssaChunk + t];
    logits[h * kTssaChunk + t] = scratch[h * kTssaChunk + t] / total;
  });
  __syncthreads();
}

// gradient = Π (dΠ − Σ_heads Π dΠ): that of the logits. As above.
template <int kPack, class S>
__device__ void TssaSoftmaxBackward(const TssaBlock<kPack>& block, const S* membership,
                                    const S* membership_gradient, S* gradient) {
  __syncthreads();
  block.ForOwn([&](int h, int t) {
    S mean = S(0);
    for (int k = 0; k < block.heads; ++k) {
      mean += membership[k * kTssaChunk + t] * membership_gradient[k * kTssaChunk + t];
    }
    const int at = h * kTssaChunk + t;
    gradient[at] = membership[at] * (membership_gradient[at] - mean);
  });
  __syncthreads();
}

// What the pass reads and writes. `energy` is a row of sums per sequence (null: no normalisation,
// 1/D² is 1), or, in the causal form, the sums before each chunk.
template <class T>
struct TssaMembershipArguments {
  TssaExtents extents;
  const T* w;
  const Sum<T>* temp;
  const Sum<T>* bias;  // causal: of the first token; [heads, bias_stride]
  int64_t bias_stride;
  const Sum<T>* energy;
  Sum<T>* memberships;
  Sum<T>* weighted;  // a row of sums for each chunk: Σ Π w², then Σ Π
};

// 1/D² of Tssa, exactly as it is used again in backward.
template <class S>
__device__ __forceinline__ S InverseTssaEnergy(S energy) {
  return S(1) / Max(energy, kTssaLeastEnergy<S>);
}

// partial[t] = Σ_i w²/D² over the thread's channels, at fixed D².
template <int kPack, class S>
__device__ __forceinline__ void TssaShares(const TssaBlock<kPack>& block, const TssaPlace& place,
                                           const TssaTokens<S, kPack>& w, const S* energy,
                                           S* partial) {
  Numbers<S, kPack> inverse;
#pragma unroll
  for (int i = 0; i < kPack; ++i) inverse[i] = S(1);
  if (energy != nullptr) {
    inverse = block.LoadSums(place, energy);
#pragma unroll
    for (int i = 0; i < kPack; ++i) inverse[i] = InverseTssaEnergy(inverse[i]);
  }
#pragma unroll
  for (int t = 0; t < kTssaRowTokens; ++t) {
    S share = S(0);
#pragma unroll
    for (int i = 0; i < kPack; ++i) share += w(t, i) * w(t, i) * inverse[i];
    partial[block.PartialAt(t)] = share;
  }
}

// Σ w² before the thread's first token, from that before the chunk. Has a barrier.
template <int kPack, class S>
__device__ __forceinline__ Numbers<S, kPack> EnergyBefore(const TssaBlock<kPack>& block,
                                                          const TssaPlace& place,
                                                          const TssaTokens<S, kPack>& w,
                                                          const S* before_chunk, S* exchange) {
  Numbers<S, kPack> own{};
#pragma unroll
  for (int t = 0; t < kTssaRowTokens; ++t) {
#pragma unroll
    for (int i = 0; i < kPack; ++i) own[i] += w(t, i) * w(t, i);
  }
  block.PutRow(exchange, own);
  Numbers<S, kPack> energy = block.LoadSums(place, before_chunk);
  __syncthreads();
  block.AddEarlierRows(exchange, energy);
  return energy;
}

// partial[t] = Σ_i w²/D over the thread's channels, D of the tokens up to t.
template <int kPack, class S>
__device__ __forceinline__ void CausalTssaShares(const TssaBlock<kPack>& block,
                                                 const TssaTokens<S, kPack>& w,
                                                 Numbers<S, kPack> energy, S* partial) {
#pragma unroll
  for (int t = 0; t < kTssaRowTokens; ++t) {
    S share = S(0);
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      const S square = w(t, i) * w(t, i);
      energy[i] += square;
      share += square * Reciprocal(Max(energy[i], kCausalTssaLeastEnergy<S>));
    }
    partial[block.PartialAt(t)] = share;
  }
}

// Memberships, and Σ Π w² and Σ Π of each chunk. A block is a chunk with all heads, a thread eight
// tokens of a pack. w is read a second time where it is weighted, moments after the first: from the
// L1 or L2 cache.
template <class T, int kPack, bool kCausal>
__global__ void __launch_bounds__(kTssaAllThreads, 1)
    TssaMemberships(TssaMembershipArguments<T> a) {
  using S = Sum<T>;
  TOST_DYNAMIC_SHARED(S, exchange);
  const TssaBlock<kPack> block(a.extents, a.extents.heads);
  S* partial = exchange + kTssaRows * block.at_once * kPack;
  S* tile = partial + kTssaChunk * block.PartialStride();
  S* scratch = tile + kTssaChunk * block.heads;

  block.ForOwn([&](int h, int t) { tile[h * kTssaChunk + t] = S(0); });
  for (int first = 0; first < block.packs; first += block.at_once) {
    const TssaPlace place = block.Place(first);
    const TssaTokens<S, kPack> w = block.Load(place, a.w);
    if constexpr (kCausal) {
      const S* before = a.energy + block.SumRow(a.extents);
      CausalTssaShares(block, w, EnergyBefore(block, place, w, before, exchange), partial);
    } else {
      TssaShares(block, place, w,
                 a.energy == nullptr ? nullptr : a.energy + block.sequence * a.extents.stride(),
                 partial);
    }
    __syncthreads();
    block.AddHeadSums(first, partial, tile);
    __syncthreads();
  }

  block.ForOwn([&](int h, int t) {
    S& logit = tile[h * kTssaChunk + t];
    if constexpr (kCausal) {
      // The bias is added to each of the head's channels, hence the factor.
      const bool has = t < block.tokens;
      const S bias = has ? a.bias[h * a.bias_stride + block.first_token + t] : S(0);
      logit += S(a.extents.head_dim) * bias;
    }
    logit *= a.temp[h];
  });
  TssaSoftmax(block, tile, scratch);
  block.ForHeadsInMemory(
      [&](int h, int t, int64_t at) { a.memberships[at] = tile[h * kTssaChunk + t]; });

  S* sums = a.weighted + block.SumRow(a.extents);
  block.ForOwn([&](int h, int t) {
    const S mass = WarpSum(t < block.tokens ? tile[h * kTssaChunk + t] : S(0));
    if (t == 0) sums[block.width + h] = mass;
  });
  for (int first = 0; first < block.packs; first += block.at_once) {
    const TssaPlace place = block.Place(first);
    const TssaTokens<S, kPack> w = block.Load(place, a.w);
    const S* membership = tile + place.head * kTssaChunk + block.row * kTssaRowTokens;
    Numbers<S, kPack> weighted{};
#pragma unroll
    for (int t = 0; t < kTssaRowTokens; ++t) {
#pragma unroll
      for (int i = 0; i < kPack; ++i) weighted[i] += membership[t] * (w(t, i) * w(t, i));
    }
    block.PutRow(exchange, weighted);
    __syncthreads();
    block.StoreRowSums(first, exchange, sums);
    __syncthreads();
  }
}

// Reads w once from memory.
template <bool kCausal, int kPack, class T>
void LaunchTssaMemberships(const TssaMembershipArguments<T>& arguments, cudaStream_t stream) {
  const TssaLaunch launch(arguments.extents, kPack, /*all_heads=*/true);
  gpu::Launch(TssaMemberships<T, kPack, kCausal>, launch.grid, launch.block,
              launch.template Shared<Sum<T>>(1, 1, 2), stream, arguments);
}

}  // namespace tost::cuda

#endif  // TOST_CUDA_TSSA_MEMBERSHIPS_CUH_
