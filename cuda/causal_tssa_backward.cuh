// CausalTssa, backward. ops/cpu/causal_tssa_backward.cc derives it; with G = dL/dy, n = Σ Π + 1e-8,
// N = Σ Π w² and the multipliers m:
//
//   r = 1/(n + N),  g = n r,  z = Π g r · (m G w),  p = −(Σ_i z N) / n
//   RM = Σ_{r>=t} z,  RP = Σ_{r>=t} p
//   dΠ = −Σ_i g (m G w) + Σ_i w² RM + RP
//   da = Π (dΠ − Σ_heads Π dΠ),  du = temp · da
//   x  = du w² / D²  (0 where D is clamped),  RX = Σ_{r>t} x
//   dw = −G Π g m + 2 w (Π RM + du · own − RX),   own = E[t−1] / D²  (1/D where clamped)
//
// R1 finds z and, with RM and RP of the chunk's own tokens, its part of dΠ. R2 adds that of the
// chunks after it, then finds da and x. R3 forms z and x again and writes dw.
#ifndef TOST_CUDA_CAUSAL_TSSA_BACKWARD_CUH_
#define TOST_CUDA_CAUSAL_TSSA_BACKWARD_CUH_

#include "cuda/causal_tssa.cuh"

namespace tost::cuda {

template <class T>
struct CausalTssaBackwardArguments {
  TssaExtents extents;
  const T* w;
  const T* dy;
  const Sum<T>* temp;
  const Sum<T>* bias;  // [heads, bias_stride]
  int64_t bias_stride;
  const Sum<T>* mask;         // [batch, tokens, width], or null
  const Sum<T>* memberships;  // [batch, tokens, heads]
  const Sum<T>* energy;       // sums before each chunk, as the forward left them
  const Sum<T>* weighted;
  // Scratch memory.
  Sum<T>* later;            // [batch, chunks, stride]: z and p of each chunk, then of those after
  Sum<T>* later_shares;     // [batch, chunks, stride]: x likewise
  Sum<T>* logit_gradients;  // [batch, tokens, heads]: the chunk's part of dΠ, then da
  Sum<T>* temp_sums;        // [batch · chunks, heads]: Σ da u
  // Null where nobody wants them.
  T* dw;
  bool dw_add;
  Sum<T>* dtemp;
  bool dtemp_add;
  Sum<T>* dbias;
  bool dbias_add;
};

template <class S, int kPack>
__device__ __forceinline__ Numbers<S, kPack> SumOf(const TssaTokens<S, kPack>& values) {
  Numbers<S, kPack> sum{};
#pragma unroll
  for (int t = kTssaRowTokens - 1; t >= 0; --t) {
#pragma unroll
    for (int i = 0; i < kPack; ++i) sum[i] += values(t, i);
  }
  return sum;
}

// z of the thread's tokens, by a walk that calls visit(t, i, gradient, z, weighted) on its way:
// g m G, z and N. `weighted` is N before the first token.
template <int kPack, class S, class Visit>
__device__ __forceinline__ TssaTokens<S, kPack> OwnGradients(
    const TssaBlock<kPack>& block, const TssaPlace& place, const TssaTokens<S, kPack>& w,
    const TssaTokens<S, kPack>& dy, const S* mask, const S* membership, const S* mass,
    Numbers<S, kPack> weighted, Visit visit) {
  TssaTokens<S, kPack> z;
#pragma unroll
  for (int t = 0; t < kTssaRowTokens; ++t) {
    const Numbers<S, kPack> multiplier = block.LoadMask(place, t, mask);
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      weighted[i] += membership[t] * (w(t, i) * w(t, i));
      const S r = Reciprocal(mass[t] + weighted[i]);
      const S gradient = mass[t] * r * multiplier[i] * dy(t, i);
      z(t, i) = membership[t] * (gradient * w(t, i)) * r;
      visit(t, i, gradient, z(t, i), weighted[i]);
    }
  }
  return z;
}

// R1, the block's part between the sums over heads and memory: p, RP of the chunk's own tokens.
// `to_mass` holds Σ_i z N; lane t stands for the token 31 − t, so that a running sum is one over
// later tokens.
template <class T, int kPack>
__device__ void FinishOwnGradients(const CausalTssaBackwardArguments<T>& a,
                                   const TssaBlock<kPack>& block, const Sum<T>* to_mass,
                                   const Sum<T>* masses, Sum<T>* tile, Sum<T>* sums) {
  using S = Sum<T>;
  __syncthreads();
  block.ForOwn([&](int h, int lane) {
    const int t = kTssaChunk - 1 - lane, at = h * kTssaChunk + t;
    const S later = WarpInclusiveSum(-to_mass[at] / masses[at]);
    tile[at] += later;
    if (t == 0) sums[block.width + block.first_head + h] = later;
  });
  __syncthreads();
  block.ForHeadsInMemory(
      [&](int h, int t, int64_t at) { a.logit_gradients[at] = tile[h * kTssaChunk + t]; });
}

// R1. A block is a chunk and some heads, a thread eight tokens of a pack.
template <class T, int kPack>
__global__ void __launch_bounds__(kTssaSomeThreads, kTssaSomeBlocks)
    CausalTssaOwnGradients(CausalTssaBackwardArguments<T> a, int heads_per_block) {
  using S = Sum<T>;
  TOST_DYNAMIC_SHARED(S, exchange);
  const TssaBlock<kPack> block(a.extents, heads_per_block);
  const int numbers = kTssaRows * block.at_once * kPack, tiles = kTssaChunk * block.heads;
  S* later_exchange = exchange + numbers;
  S* partial = later_exchange + numbers;
  S* mass_partial = partial + kTssaChunk * block.PartialStride();
  S* memberships = mass_partial + kTssaChunk * block.PartialStride();
  S *masses = memberships + tiles, *tile = masses + tiles, *to_mass = tile + tiles;
  const S* before = a.weighted + block.SumRow(a.extents);
  S* sums = a.later + block.SumRow(a.extents);

  block.ForOwn([&](int h, int t) {
    tile[h * kTssaChunk + t] = S(0);
    to_mass[h * kTssaChunk + t] = S(0);
  });
  LoadMembershipsAndMass(block, a.memberships, before, memberships, masses);
  for (int first = 0; first < block.packs; first += block.at_once) {
    const TssaPlace place = block.Place(first);
    const TssaTokens<S, kPack> w = block.Load(place, a.w), dy = block.Load(place, a.dy);
    const int at = place.head * kTssaChunk + block.row * kTssaRowTokens;
    const S *membership = memberships + at, *mass = masses + at;
    Numbers<S, kTssaRowTokens> own_sum{}, mass_sum{};
    const TssaTokens<S, kPack> z =
        OwnGradients(block, place, w, dy, a.mask, membership, mass,
                     WeightedBefore(block, place, w, membership, before, exchange),
                     [&](int t, int i, S gradient, S own, S weighted) {
                       own_sum[t] -= gradient * w(t, i);
                       mass_sum[t] += own * weighted;
                     });

    block.PutRow(later_exchange, SumOf(z));
    __syncthreads();
    Numbers<S, kPack> later{};
    block.AddLaterRows(later_exchange, later);
    block.StoreRowSums(first, later_exchange, sums);
#pragma unroll
    for (int t = kTssaRowTokens - 1; t >= 0; --t) {
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        later[i] += z(t, i);
        own_sum[t] += w(t, i) * w(t, i) * later[i];
      }
      partial[block.PartialAt(t)] = own_sum[t];
      mass_partial[block.PartialAt(t)] = mass_sum[t];
    }
    __syncthreads();
    block.AddHeadSums(first, partial, tile);
    block.AddHeadSums(first, mass_partial, to_mass);
  }
  FinishOwnGradients(a, block, to_mass, masses, tile, sums);
}

// R2, from the gradients of the logits on: x of each chunk and Σ da w²/D² of its heads.
template <class T, int kPack>
__device__ void FindShareGradients(const CausalTssaBackwardArguments<T>& a,
                                   const TssaBlock<kPack>& block, const Sum<T>* gradients,
                                   Sum<T>* exchange, Sum<T>* share_exchange, Sum<T>* partial,
                                   Sum<T>* share_tile) {
  using S = Sum<T>;
  const S* before = a.energy + block.SumRow(a.extents);
  for (int first = 0; first < block.packs; first += block.at_once) {
    const TssaPlace place = block.Place(first);
    const TssaTokens<S, kPack> w = block.Load(place, a.w);
    const S* gradient = gradients + place.head * kTssaChunk + block.row * kTssaRowTokens;
    Numbers<S, kPack> energy = EnergyBefore(block, place, w, before, exchange);
    Numbers<S, kPack> x{};
    S to_temp = S(0);
#pragma unroll
    for (int t = 0; t < kTssaRowTokens; ++t) {
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        const S square = w(t, i) * w(t, i);
        energy[i] += square;
        const S inverse = Reciprocal(Max(energy[i], kCausalTssaLeastEnergy<S>));
        const S share = gradient[t] * (square * inverse);
        to_temp += share;
        if (energy[i] >= kCausalTssaLeastEnergy<S>) x[i] += share * inverse;
      }
    }
    const S temp = a.temp[place.head];
#pragma unroll
    for (int i = 0; i < kPack; ++i) x[i] *= temp;
    block.PutRow(share_exchange, x);
    partial[block.row * block.PartialStride() + block.lane] = to_temp;
    __syncthreads();
    block.StoreRowSums(first, share_exchange, a.later_shares + block.SumRow(a.extents));
    block.AddHeadSums(first, partial, share_tile, kTssaRows);
  }
}

// R2. A block is a chunk with all heads, a thread eight tokens of a pack. w is read a second time
// where it is weighted, from the L1 or L2 cache.
template <class T, int kPack>
__global__ void __launch_bounds__(kTssaAllThreads, 1)
    CausalTssaLogitGradients(CausalTssaBackwardArguments<T> a) {
  using S = Sum<T>;
  TOST_DYNAMIC_SHARED(S, exchange);
  const TssaBlock<kPack> block(a.extents, a.extents.heads);
  const int numbers = kTssaRows * block.at_once * kPack, tiles = kTssaChunk * block.heads;
  S* share_exchange = exchange + numbers;
  S* partial = share_exchange + numbers;
  S* memberships = partial + kTssaChunk * block.PartialStride();
  S *tile = memberships + tiles, *gradients = tile + tiles;
  const S* later_chunks = a.later + block.SumRow(a.extents);

  block.LoadTile(a.memberships, memberships);
  block.LoadTile(a.logit_gradients, tile);
  __syncthreads();
  for (int first = 0; first < block.packs; first += block.at_once) {
    const TssaPlace place = block.Place(first);
    const TssaTokens<S, kPack> w = block.Load(place, a.w);
    const Numbers<S, kPack> later = block.LoadSums(place, later_chunks);
#pragma unroll
    for (int t = 0; t < kTssaRowTokens; ++t) {
      S sum = S(0);
#pragma unroll
      for (int i = 0; i < kPack; ++i) sum += w(t, i) * w(t, i) * later[i];
      partial[block.PartialAt(t)] = sum;
    }
    __syncthreads();
    block.AddHeadSums(first, partial, tile);
    __syncthreads();
  }
  block.ForOwn([&](int h, int t) { tile[h * kTssaChunk + t] += later_chunks[block.width + h]; });
  TssaSoftmaxBackward(block, memberships, tile, gradients);
  block.ForHeadsInMemory(
      [&](int h, int t, int64_t at) { a.logit_gradients[at] = gradients[h * kTssaChunk + t]; });

  S* share_tile = tile;  // of the rows, no longer of the tokens
  block.ForOwn([&](int h, int t) { share_tile[h * kTssaChunk + t] = S(0); });
  FindShareGradients(a, block, gradients, exchange, share_exchange, partial, share_tile);
  block.ForOwn([&](int h, int t) {
    const bool has = t < block.tokens;
    const S bias = has ? a.bias[h * a.bias_stride + block.first_token + t] : S(0);
    const S to_bias = S(a.extents.head_dim) * bias * gradients[h * kTssaChunk + t];
    const S sum = WarpSum(share_tile[h * kTssaChunk + t] + to_bias);
    if (t == 0) a.temp_sums[int64_t{static_cast<int>(blockIdx.x)} * block.heads + h] = sum;
  });
}

// R3, first half: `dw` = −G Π g m + 2 w Π RM.
template <class T, int kPack>
__device__ __forceinline__ void AddPathThroughMoments(
    const CausalTssaBackwardArguments<T>& a, const TssaBlock<kPack>& block, const TssaPlace& place,
    const TssaTokens<Sum<T>, kPack>& w, const Sum<T>* membership, const Sum<T>* mass,
    Sum<T>* exchange, Sum<T>* later_exchange, TssaTokens<Sum<T>, kPack>& dw) {
  using S = Sum<T>;
  const TssaTokens<S, kPack> dy = block.Load(place, a.dy);
  const S* before = a.weighted + block.SumRow(a.extents);
  const TssaTokens<S, kPack> z =
      OwnGradients(block, place, w, dy, a.mask, membership, mass,
                   WeightedBefore(block, place, w, membership, before, exchange),
                   [&](int t, int i, S gradient, S, S) { dw(t, i) = -membership[t] * gradient; });
  block.PutRow(later_exchange, SumOf(z));
  Numbers<S, kPack> later = block.LoadSums(place, a.later + block.SumRow(a.extents));
  __syncthreads();
  block.AddLaterRows(later_exchange, later);
#pragma unroll
  for (int t = kTssaRowTokens - 1; t >= 0; --t) {
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      later[i] += z(t, i);
      dw(t, i) += 2 * w(t, i) * (membership[t] * later[i]);
    }
  }
}

// R3, second half: `dw` += 2 w (du own − RX).
template <class T, int kPack>
__device__ __forceinline__ void AddPathThroughShares(
    const CausalTssaBackwardArguments<T>& a, const TssaBlock<kPack>& block, const TssaPlace& place,
    const TssaTokens<Sum<T>, kPack>& w, const Sum<T>* logit_gradient, Sum<T>* exchange,
    Sum<T>* later_exchange, TssaTokens<Sum<T>, kPack>& dw) {
  using S = Sum<T>;
  const S temp = a.temp[block.first_head + place.head];
  const S* before_chunk = a.energy + block.SumRow(a.extents);
  Numbers<S, kPack> energy = EnergyBefore(block, place, w, before_chunk, exchange);
  TssaTokens<S, kPack> x;
#pragma unroll
  for (int t = 0; t < kTssaRowTokens; ++t) {
    const S du = temp * logit_gradient[t];
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      const S before = energy[i], square = w(t, i) * w(t, i);
      energy[i] += square;
      const bool live = energy[i] >= kCausalTssaLeastEnergy<S>;
      const S inverse = Reciprocal(live ? energy[i] : kCausalTssaLeastEnergy<S>);
      const S own = (live ? before * inverse : S(1)) * inverse;
      x(t, i) = live ? du * (square * inverse) * inverse : S(0);
      dw(t, i) += 2 * w(t, i) * (du * own);
    }
  }
  block.PutRow(later_exchange, SumOf(x));
  Numbers<S, kPack> later = block.LoadSums(place, a.later_shares + block.SumRow(a.extents));
  __syncthreads();
  block.AddLaterRows(later_exchange, later);
#pragma unroll
  for (int t = kTssaRowTokens - 1; t >= 0; --t) {
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      dw(t, i) -= 2 * w(t, i) * later[i];
      later[i] += x(t, i);
    }
  }
}

// R3. A block is a chunk and some heads, a thread eight tokens of a pack.
template <class T, int kPack>
__global__ void __launch_bounds__(kTssaSomeThreads, 4)
    CausalTssaWriteGradient(CausalTssaBackwardArguments<T> a, int heads_per_block) {
  using S = Sum<T>;
  TOST_DYNAMIC_SHARED(S, exchange);
  const TssaBlock<kPack> block(a.extents, heads_per_block);
  const int numbers = kTssaRows * block.at_once * kPack, tiles = kTssaChunk * block.heads;
  S* later_exchange = exchange + numbers;
  S* memberships = later_exchange + numbers;
  S *masses = memberships + tiles, *gradients = masses + tiles;

  block.LoadTile(a.logit_gradients, gradients);
  LoadMembershipsAndMass(block, a.memberships, a.weighted + block.SumRow(a.extents), memberships,
                         masses);
  for (int first = 0; first < block.packs; first += block.at_once) {
    const TssaPlace place = block.Place(first);
    const TssaTokens<S, kPack> w = block.Load(place, a.w);
    const int at = place.head * kTssaChunk + block.row * kTssaRowTokens;
    TssaTokens<S, kPack> dw;
    AddPathThroughMoments(a, block, place, w, memberships + at, masses + at, exchange,
                          later_exchange, dw);
    AddPathThroughShares(a, block, place, w, gradients + at, exchange, later_exchange, dw);
#pragma unroll
    for (int t = 0; t < kTssaRowTokens; ++t) {
      if (!block.Has(place, t)) continue;
      Numbers<S, kPack> row = dw.token[t];
      T* to = a.dw + block.Offset(place) + t * block.width;
      if (a.dw_add) {
        const Numbers<S, kPack> there = LoadPack<kPack>(to);
#pragma unroll
        for (int i = 0; i < kPack; ++i) row[i] += there[i];
      }
      StorePack(to, row);
    }
  }
}

inline constexpr int kTssaParameterThreads = 512;

// dtemp_h = Σ da u. A block is a head, a thread every 512th chunk.
template <class T>
__global__ void __launch_bounds__(kTssaParameterThreads)
    CausalTssaTemperatureGradient(CausalTssaBackwardArguments<T> a) {
  using S = Sum<T>;
  const int h = static_cast<int>(blockIdx.x);
  S sum = S(0);
#pragma unroll 4
  for (int64_t k = threadIdx.x; k < a.extents.batch * a.extents.chunks();
       k += kTssaParameterThreads) {
    sum += a.temp_sums[k * a.extents.heads + h];
  }
  sum = BlockSum(sum);
  if (threadIdx.x == 0) a.dtemp[h] = a.dtemp_add ? a.dtemp[h] + sum : sum;
}

// dbias[h, t] = d · temp_h · Σ_sequences da. A thread is a head of a row of the bias; rows beyond
// the tokens get 0.
template <class T>
__global__ void __launch_bounds__(kTssaParameterThreads)
    CausalTssaBiasGradient(CausalTssaBackwardArguments<T> a) {
  using S = Sum<T>;
  const int heads = a.extents.heads;
  const int64_t i = int64_t{static_cast<int>(blockIdx.x)} * kTssaParameterThreads + threadIdx.x;
  if (i >= a.bias_stride * heads) return;
  const int64_t t = i / heads, h = i % heads;
  S sum = S(0);
  if (t < a.extents.tokens) {
#pragma unroll 8
    for (int64_t b = 0; b < a.extents.batch; ++b) {
      sum += a.logit_gradients[(b * a.extents.tokens + t) * heads + h];
    }
  }
  sum *= S(a.extents.head_dim) * a.temp[h];
  S& to = a.dbias[h * a.bias_stride + t];
  to = a.dbias_add ? to + sum : sum;
}

// Reads w three times and dy and the mask twice, writes dw once (and reads it where it adds). R1
// does the chunk's own part of RM, so that R2 needs no dy.
template <int kPack, class T>
void LaunchCausalTssaBackward(const CausalTssaBackwardArguments<T>& a, cudaStream_t stream) {
  const TssaCarry<Sum<T>> zeros{};
  constexpr int kSmall = kTssaSmallPack<kPack>;
  const TssaLaunch some(a.extents, kSmall, /*all_heads=*/false);
  const TssaLaunch all(a.extents, kPack, /*all_heads=*/true);
  gpu::Launch(CausalTssaOwnGradients<T, kSmall>, some.grid, some.block,
              some.template Shared<Sum<T>>(2, 2, 4), stream, a, some.heads);
  LaunchTssaScan</*kReverse=*/true>(a.extents, a.extents.columns(), zeros, a.later, stream);
  gpu::Launch(CausalTssaLogitGradients<T, kPack>, all.grid, all.block,
              all.template Shared<Sum<T>>(2, 1, 3), stream, a);
  if (a.dw != nullptr) {
    LaunchTssaScan</*kReverse=*/true>(a.extents, a.extents.width(), zeros, a.later_shares, stream);
    gpu::Launch(CausalTssaWriteGradient<T, kSmall>, some.grid, some.block,
                some.template Shared<Sum<T>>(2, 0, 3), stream, a, some.heads);
  }
  if (a.dtemp != nullptr) {
    gpu::Launch(CausalTssaTemperatureGradient<T>, static_cast<unsigned>(a.extents.heads),
                kTssaParameterThreads, 0, stream, a);
  }
  if (a.dbias != nullptr) {
    const int64_t blocks =
        CeilDivide<int64_t>(a.bias_stride * a.extents.heads, kTssaParameterThreads);
    gpu::Launch(CausalTssaBiasGradient<T>, static_cast<unsigned>(blocks), kTssaParameterThreads, 0,
                stream, a);
  }
}

}  // namespace tost::cuda

#endif  // TOST_CUDA_CAUSAL_TSSA_BACKWARD_CUH_
