// Tssa, backward. ops/cpu/tssa_backward.cc derives it; per channel, with G = dL/dy:
//
//   attention = m / (1 + s),  inverse = 1/D²
//   through   = attention · (Σ_n G w Π) / (n (1 + s))
//   X         = Σ_n da w²
//   Θ         = temp X inverse                       (0 where D is clamped)
//
// and per token
//
//   dΠ = Σ_i through (w² − s) − Σ_i G w · attention
//   da = Π (dΠ − Σ_heads Π dΠ)
//   dw = −G Π attention + 2 w (through Π + (temp da − Θ) inverse),   dtemp = Σ_sequences Σ_i X
//   inverse
#ifndef TOST_CUDA_TSSA_BACKWARD_CUH_
#define TOST_CUDA_TSSA_BACKWARD_CUH_

#include "cuda/tssa.cuh"

namespace tost::cuda {

template <class T>
struct TssaBackwardArguments {
  TssaExtents extents;
  const T* w;
  const T* dy;
  const Sum<T>* temp;
  const Sum<T>* mask;         // [batch, width], or null
  const Sum<T>* memberships;  // [batch, tokens, heads]
  const Sum<T>* energy;       // rows of sums for each sequence, as the forward left them
  const Sum<T>* weighted;
  // Scratch memory.
  Sum<T>* chunk_sums;       // [batch, chunks, stride]
  Sum<T>* correlation;      // [batch, stride]: Σ Π G w
  Sum<T>* shares;           // [batch, stride]: X
  Sum<T>* logit_gradients;  // [batch, tokens, heads]: −Σ_i G w · attention, then da
  // Null where nobody wants them.
  T* dw;
  bool dw_add;
  Sum<T>* dtemp;
  bool dtemp_add;
};

// A thread's channels.
template <class S, int kPack>
struct TssaFactors {
  Numbers<S, kPack> attention;
  Numbers<S, kPack> through;
  Numbers<S, kPack> second;  // s
};

template <class T, int kPack>
__device__ __forceinline__ TssaFactors<Sum<T>, kPack> LoadTssaFactors(
    const TssaBackwardArguments<T>& a, const TssaBlock<kPack>& block, const TssaPlace& place) {
  using S = Sum<T>;
  const int64_t row = block.sequence * a.extents.stride();
  const S* mask = a.mask == nullptr ? nullptr : a.mask + block.sequence * block.width;
  const S mass = a.weighted[row + block.width + block.first_head + place.head] + kTssaMass<S>;
  TssaFactors<S, kPack> factors;
  factors.attention = TssaAttention(block, place, a.weighted + row, mask);
  factors.through = block.LoadSums(place, a.correlation + row);
  factors.second = block.LoadSums(place, a.weighted + row);
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    factors.through[i] *= factors.attention[i] / (mass + factors.second[i]);
    factors.second[i] /= mass;
  }
  return factors;
}

// Σ Π G w of each chunk, and −Σ_i G w · attention of each token and head. A block is a chunk and
// some heads, a thread eight tokens of a pack.
template <class T, int kPack>
__global__ void __launch_bounds__(kTssaSomeThreads, kTssaWideBlocks)
    TssaCorrelations(TssaBackwardArguments<T> a, int heads_per_block) {
  using S = Sum<T>;
  TOST_DYNAMIC_SHARED(S, exchange);
  const TssaBlock<kPack> block(a.extents, heads_per_block);
  S* partial = exchange + kTssaRows * block.at_once * kPack;
  S* memberships = partial + kTssaChunk * block.PartialStride();
  S* tile = memberships + kTssaChunk * block.heads;
  const S* weighted = a.weighted + block.sequence * a.extents.stride();
  const S* mask = a.mask == nullptr ? nullptr : a.mask + block.sequence * block.width;

  block.ForOwn([&](int h, int t) { tile[h * kTssaChunk + t] = S(0); });
  block.LoadTile(a.memberships, memberships);
  __syncthreads();
  for (int first = 0; first < block.packs; first += block.at_once) {
    const TssaPlace place = block.Place(first);
    const TssaTokens<S, kPack> w = block.Load(place, a.w), dy = block.Load(place, a.dy);
    const Numbers<S, kPack> attention = TssaAttention(block, place, weighted, mask);
    const S* membership = memberships + place.head * kTssaChunk + block.row * kTssaRowTokens;
    Numbers<S, kPack> correlation{};
#pragma unroll
    for (int t = 0; t < kTssaRowTokens; ++t) {
      S own = S(0);
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        const S product = w(t, i) * dy(t, i);
        correlation[i] += membership[t] * product;
        own += product * attention[i];
      }
      partial[block.PartialAt(t)] = -own;
    }
    block.PutRow(exchange, correlation);
    __syncthreads();
    block.StoreRowSums(first, exchange, a.chunk_sums + block.SumRow(a.extents));
    block.AddHeadSums(first, partial, tile);
    __syncthreads();
  }
  block.ForHeadsInMemory(
      [&](int h, int t, int64_t at) { a.logit_gradients[at] = tile[h * kTssaChunk + t]; });
}

// Completes dΠ, forms da and X of each chunk. A block is a chunk with all heads, a thread eight
// tokens of a pack. w is read a second time where it is weighted, from the L1 or L2 cache.
template <class T, int kPack>
__global__ void __launch_bounds__(kTssaAllThreads, 1)
    TssaLogitGradients(TssaBackwardArguments<T> a) {
  using S = Sum<T>;
  TOST_DYNAMIC_SHARED(S, exchange);
  const TssaBlock<kPack> block(a.extents, a.extents.heads);
  S* partial = exchange + kTssaRows * block.at_once * kPack;
  S* memberships = partial + kTssaChunk * block.PartialStride();
  S* tile = memberships + kTssaChunk * block.heads;
  S* gradients = tile + kTssaChunk * block.heads;

  block.LoadTile(a.memberships, memberships);
  block.LoadTile(a.logit_gradients, tile);
  __syncthreads();
  for (int first = 0; first < block.packs; first += block.at_once) {
    const TssaPlace place = block.Place(first);
    const TssaTokens<S, kPack> w = block.Load(place, a.w);
    const TssaFactors<S, kPack> factors = LoadTssaFactors(a, block, place);
#pragma unroll
    for (int t = 0; t < kTssaRowTokens; ++t) {
      S sum = S(0);
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        sum += factors.through[i] * (w(t, i) * w(t, i) - factors.second[i]);
      }
      partial[block.PartialAt(t)] = sum;
    }
    __syncthreads();
    block.AddHeadSums(first, partial, tile);
    __syncthreads();
  }
  TssaSoftmaxBackward(block, memberships, tile, gradients);
  block.ForHeadsInMemory(
      [&](int h, int t, int64_t at) { a.logit_gradients[at] = gradients[h * kTssaChunk + t]; });

  for (int first = 0; first < block.packs; first += block.at_once) {
    const TssaPlace place = block.Place(first);
    const TssaTokens<S, kPack> w = block.Load(place, a.w);
    const S* gradient = gradients + place.head * kTssaChunk + block.row * kTssaRowTokens;
    Numbers<S, kPack> share{};
#pragma unroll
    for (int t = 0; t < kTssaRowTokens; ++t) {
#pragma unroll
      for (int i = 0; i < kPack; ++i) share[i] += gradient[t] * (w(t, i) * w(t, i));
    }
    block.PutRow(exchange, share);
    __syncthreads();
    block.StoreRowSums(first, exchange, a.chunk_sums + block.SumRow(a.extents));
    __syncthreads();
  }
}

// A thread's channels of 1/D² and Θ / temp.
template <class T, int kPack>
__device__ __forceinline__ void LoadTheta(const TssaBackwardArguments<T>& a,
                                          const TssaBlock<kPack>& block, const TssaPlace& place,
                                          Numbers<Sum<T>, kPack>& inverse,
                                          Numbers<Sum<T>, kPack>& theta) {
  using S = Sum<T>;
  const int64_t row = block.sequence * a.extents.stride();
  inverse = theta = {};
  if (a.energy == nullptr) {
#pragma unroll
    for (int i = 0; i < kPack; ++i) inverse[i] = S(1);
    return;
  }
  const Numbers<S, kPack> energy = block.LoadSums(place, a.energy + row);
  const Numbers<S, kPack> share = block.LoadSums(place, a.shares + row);
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    inverse[i] = InverseTssaEnergy(energy[i]);
    if (energy[i] >= kTssaLeastEnergy<S>) theta[i] = share[i] * inverse[i];
  }
}

// dw. A block is a chunk and some heads, a thread eight tokens of a pack. da − Θ/temp is formed
// before anything else: for a single token it cancels.
template <class T, int kPack>
__global__ void __launch_bounds__(kTssaSomeThreads, kTssaWideBlocks)
    TssaWriteGradient(TssaBackwardArguments<T> a, int heads_per_block) {
  using S = Sum<T>;
  const TssaBlock<kPack> block(a.extents, heads_per_block);
  for (int first = 0; first < block.packs; first += block.at_once) {
    const TssaPlace place = block.Place(first);
    const TssaTokens<S, kPack> w = block.Load(place, a.w), dy = block.Load(place, a.dy);
    const TssaFactors<S, kPack> factors = LoadTssaFactors(a, block, place);
    Numbers<S, kPack> inverse, theta;
    LoadTheta(a, block, place, inverse, theta);
    const S temp = a.temp[block.first_head + place.head];
#pragma unroll
    for (int t = 0; t < kTssaRowTokens; ++t) {
      if (!block.Has(place, t)) continue;
      const int64_t at = block.HeadOffset(place.head, block.row * kTssaRowTokens + t);
      const S membership = a.memberships[at], da = a.logit_gradients[at];
      Numbers<S, kPack> dw{};
      if (a.dw_add) dw = LoadPack<kPack>(a.dw + block.Offset(place) + t * block.width);
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        const S inner = membership * factors.through[i] + temp * (da - theta[i]) * inverse[i];
        dw[i] += 2 * w(t, i) * inner - membership * dy(t, i) * factors.attention[i];
      }
      StorePack(a.dw + block.Offset(place) + t * block.width, dw);
    }
  }
}

inline constexpr int kTssaTemperatureThreads = 512;

// dtemp_h = Σ X / D². A block is a head, a thread every 512th of its channels of all sequences.
template <class T>
__global__ void __launch_bounds__(kTssaTemperatureThreads)
    TssaTemperatureGradient(TssaBackwardArguments<T> a) {
  using S = Sum<T>;
  const int d = a.extents.head_dim, h = static_cast<int>(blockIdx.x);
  S sum = S(0);
#pragma unroll 4
  for (int64_t k = threadIdx.x; k < a.extents.batch * d; k += kTssaTemperatureThreads) {
    const int64_t at = k / d * a.extents.stride() + h * d + k % d;
    sum += a.shares[at] * (a.energy == nullptr ? S(1) : InverseTssaEnergy(a.energy[at]));
  }
  sum = BlockSum(sum);
  if (threadIdx.x == 0) a.dtemp[h] = a.dtemp_add ? a.dtemp[h] + sum : sum;
}

// Reads w three times and dy twice, writes dw once (and reads it where it adds): the sums of the
// correlations, the gradients of the logits and dw each need a sum over all tokens of what came
// before, but the second of them needs dy only in sums over channels, which the first has formed.
template <int kPack, class T>
void LaunchTssaBackward(const TssaBackwardArguments<T>& a, cudaStream_t stream) {
  const int width = a.extents.width();
  const TssaLaunch some(a.extents, kPack, /*all_heads=*/false);
  const TssaLaunch all(a.extents, kPack, /*all_heads=*/true);
  gpu::Launch(TssaCorrelations<T, kPack>, some.grid, some.block,
              some.template Shared<Sum<T>>(1, 1, 2), stream, a, some.heads);
  LaunchTssaTotals(a.extents, width, a.chunk_sums, a.correlation, stream);
  gpu::Launch(TssaLogitGradients<T, kPack>, all.grid, all.block,
              all.template Shared<Sum<T>>(1, 1, 3), stream, a);
  LaunchTssaTotals(a.extents, width, a.chunk_sums, a.shares, stream);
  if (a.dw != nullptr) {
    constexpr int kSmall = kTssaSmallPack<kPack>;
    const TssaLaunch small(a.extents, kSmall, /*all_heads=*/false);
    gpu::Launch(TssaWriteGradient<T, kSmall>, small.grid, small.block, 0, stream, a, small.heads);
  }
  if (a.dtemp != nullptr) {
    gpu::Launch(TssaTemperatureGradient<T>, static_cast<unsigned>(a.extents.heads),
                kTssaTemperatureThreads, 0, stream, a);
  }
}

}  // namespace tost::cuda

#endif  // TOST_CUDA_TSSA_BACKWARD_CUH_
