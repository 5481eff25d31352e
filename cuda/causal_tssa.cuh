// CausalTssa, forward: of a whole sequence and of one token. Formulas in ops/tssa.h.
#ifndef TOST_CUDA_CAUSAL_TSSA_CUH_
#define TOST_CUDA_CAUSAL_TSSA_CUH_

#include "cuda/tssa_memberships.cuh"
#include "cuda/tssa_sums.cuh"

namespace tost::cuda {

// Memberships of a chunk's tokens and the block's heads, and n = Σ Π + 1e-8 over the tokens up to
// each, as tiles; `before` is a row of sums before the chunk. Returns after a barrier.
template <int kPack, class S>
__device__ void LoadMembershipsAndMass(const TssaBlock<kPack>& block, const S* memberships,
                                       const S* before, S* tile, S* mass) {
  block.LoadTile(memberships, tile);
  __syncthreads();
  block.ForOwn([&](int h, int t) {
    mass[h * kTssaChunk + t] = before[block.width + block.first_head + h] +
                               WarpInclusiveSum(tile[h * kTssaChunk + t]) + kTssaMass<S>;
  });
  __syncthreads();
}

// Σ Π w² before the thread's first token, from that before the chunk. Has a barrier.
template <int kPack, class S>
__device__ __forceinline__ Numbers<S, kPack> WeightedBefore(const TssaBlock<kPack>& block,
                                                            const TssaPlace& place,
                                                            const TssaTokens<S, kPack>& w,
                                                            const S* membership,
                                                            const S* before_chunk, S* exchange) {
  Numbers<S, kPack> own{};
#pragma unroll
  for (int t = 0; t < kTssaRowTokens; ++t) {
#pragma unroll
    for (int i = 0; i < kPack; ++i) own[i] += membership[t] * (w(t, i) * w(t, i));
  }
  block.PutRow(exchange, own);
  Numbers<S, kPack> weighted = block.LoadSums(place, before_chunk);
  __syncthreads();
  block.AddEarlierRows(exchange, weighted);
  return weighted;
}

template <class T>
struct CausalTssaArguments {
  TssaExtents extents;
  const T* w;
  const Sum<T>* temp;
  const Sum<T>* bias;  // of the first token; [heads, bias_stride]
  int64_t bias_stride;
  const Sum<T>* mask;  // [batch, tokens, width], or null
  T* y;
  Sum<T>* memberships;  // [batch, tokens, heads]
  // [batch, chunks, stride]: Σ w², and Σ Π w² with Σ Π; of each chunk, then of those before it.
  Sum<T>* energy;
  Sum<T>* weighted;
  // The sums over the tokens before these.
  TssaCarry<Sum<T>> energy_carry;
  TssaCarry<Sum<T>> weighted_carry;
};

// y = −w Π m / (1 + s). A block is a chunk and some heads, a thread eight tokens of a pack.
template <class T, int kPack>
__global__ void __launch_bounds__(kTssaSomeThreads, kTssaSomeBlocks)
    CausalTssaWrite(CausalTssaArguments<T> a, int heads_per_block) {
  using S = Sum<T>;
  TOST_DYNAMIC_SHARED(S, exchange);
  const TssaBlock<kPack> block(a.extents, heads_per_block);
  S* tile = exchange + kTssaRows * block.at_once * kPack;
  S* masses = tile + kTssaChunk * block.heads;
  const S* before = a.weighted + block.SumRow(a.extents);

  LoadMembershipsAndMass(block, a.memberships, before, tile, masses);
  for (int first = 0; first < block.packs; first += block.at_once) {
    const TssaPlace place = block.Place(first);
    const TssaTokens<S, kPack> w = block.Load(place, a.w);
    const int at = place.head * kTssaChunk + block.row * kTssaRowTokens;
    const S *membership = tile + at, *mass = masses + at;
    Numbers<S, kPack> weighted = WeightedBefore(block, place, w, membership, before, exchange);
#pragma unroll
    for (int t = 0; t < kTssaRowTokens; ++t) {
      Numbers<S, kPack> y = block.LoadMask(place, t, a.mask);
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        weighted[i] += membership[t] * (w(t, i) * w(t, i));
        y[i] *= w(t, i) * -membership[t] * (mass[t] * Reciprocal(mass[t] + weighted[i]));
      }
      if (block.Has(place, t)) StorePack(a.y + block.Offset(place) + t * block.width, y);
    }
    __syncthreads();
  }
}

// Reads w three times, the mask once, and writes y once: F1 energies of chunks, F2 memberships and
// weighted energies of chunks, F3 y; between them each chunk learns the sums before it.
template <int kPack, class T>
void LaunchCausalTssa(const CausalTssaArguments<T>& a, cudaStream_t stream) {
  LaunchTssaEnergySums<T, kPack>(a.extents, a.w, a.energy, stream);
  LaunchTssaScan</*kReverse=*/false>(a.extents, a.extents.width(), a.energy_carry, a.energy,
                                     stream);
  const TssaMembershipArguments<T> memberships{.extents = a.extents,
                                               .w = a.w,
                                               .temp = a.temp,
                                               .bias = a.bias,
                                               .bias_stride = a.bias_stride,
                                               .energy = a.energy,
                                               .memberships = a.memberships,
                                               .weighted = a.weighted};
  LaunchTssaMemberships</*kCausal=*/true, kPack>(memberships, stream);
  LaunchTssaScan</*kReverse=*/false>(a.extents, a.extents.columns(), a.weighted_carry, a.weighted,
                                     stream);
  const TssaLaunch launch(a.extents, kPack, /*all_heads=*/false);
  gpu::Launch(CausalTssaWrite<T, kPack>, launch.grid, launch.block,
              launch.template Shared<Sum<T>>(1, 0, 2), stream, a, launch.heads);
}

// ---- One token ----

template <class T>
struct CausalTssaStepArguments {
  TssaExtents extents;
  const T* w;  // [batch, width]
  const Sum<T>* temp;
  const Sum<T>* bias;  // of the token
  int64_t bias_stride;
  T* y;
  Sum<T>* energy;  // the state, brought up to date
  Sum<T>* weighted;
  Sum<T>* mass;
};

inline constexpr int kTssaStepThreads = 256;

// The token's logits, one warp a head at a time, then memberships and masses in shared memory.
template <class S>
__device__ void StepMemberships(const TssaExtents& extents, const S* shares, const S* temp,
                                const S* bias, int64_t bias_stride, S* mass_state, S* logits,
                                S* memberships, S* masses) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int d = extents.head_dim;
  for (int h = warp; h < extents.heads; h += kTssaStepThreads / kWarp) {
    S share = S(0);
    for (int i = lane; i < d; i += kWarp) share += shares[h * d + i];
    share = WarpSum(share);
    if (lane == 0) logits[h] = temp[h] * (share + S(d) * bias[h * bias_stride]);
  }
  __syncthreads();
  for (int h = static_cast<int>(threadIdx.x); h < extents.heads; h += kTssaStepThreads) {
    S largest = kLowest<S>, total = S(0);
    for (int k = 0; k < extents.heads; ++k) largest = Max(largest, logits[k]);
    for (int k = 0; k < extents.heads; ++k) total += Exp(logits[k] - largest);
    memberships[h] = Exp(logits[h] - largest) / total;
    mass_state[h] += memberships[h];
    masses[h] = mass_state[h] + kTssaMass<S>;
  }
  __syncthreads();
}

// A block is a sequence, a thread every 256th of its channels.
template <class T>
__global__ void __launch_bounds__(kTssaStepThreads) CausalTssaStep(CausalTssaStepArguments<T> a) {
  using S = Sum<T>;
  TOST_DYNAMIC_SHARED(S, shares);
  const int width = a.extents.width(), heads = a.extents.heads;
  S *logits = shares + width, *memberships = logits + heads, *masses = memberships + heads;
  const int64_t row = int64_t{static_cast<int>(blockIdx.x)} * width;

  for (int c = static_cast<int>(threadIdx.x); c < width; c += kTssaStepThreads) {
    const S w = Widen(a.w[row + c]);
    const S energy = a.energy[row + c] + w * w;
    a.energy[row + c] = energy;
    shares[c] = w * w / Max(energy, kCausalTssaLeastEnergy<S>);
  }
  __syncthreads();
  StepMemberships(a.extents, shares, a.temp, a.bias, a.bias_stride,
                  a.mass + int64_t{static_cast<int>(blockIdx.x)} * heads, logits, memberships,
                  masses);
  for (int c = static_cast<int>(threadIdx.x); c < width; c += kTssaStepThreads) {
    const S w = Widen(a.w[row + c]);
    const S membership = memberships[c / a.extents.head_dim];
    const S mass = masses[c / a.extents.head_dim];
    const S weighted = a.weighted[row + c] + membership * (w * w);
    a.weighted[row + c] = weighted;
    a.y[row + c] = Narrow<T>(w * -membership * (mass / (mass + weighted)));
  }
}

// Reads and writes the state once, reads w twice.
template <class T>
void LaunchCausalTssaStep(const CausalTssaStepArguments<T>& a, cudaStream_t stream) {
  const int numbers = a.extents.width() + 3 * a.extents.heads;
  gpu::Launch(CausalTssaStep<T>, static_cast<unsigned>(a.extents.batch), kTssaStepThreads,
              static_cast<size_t>(numbers) * sizeof(Sum<T>), stream, a);
}

}  // namespace tost::cuda

#endif  // TOST_CUDA_CAUSAL_TSSA_CUH_
