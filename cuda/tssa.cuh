// Tssa, forward. Formulas in ops/tssa.h.
#ifndef TOST_CUDA_TSSA_CUH_
#define TOST_CUDA_TSSA_CUH_

#include "cuda/tssa_memberships.cuh"
#include "cuda/tssa_sums.cuh"

namespace tost::cuda {

template <class T>
struct TssaArguments {
  TssaExtents extents;
  const T* w;
  const Sum<T>* temp;
  const Sum<T>* mask;  // [batch, width], or null
  T* y;
  Sum<T>* memberships;  // [batch, tokens, heads]
  Sum<T>* energy;       // [batch, stride]: Σ w²; null: no normalisation
  Sum<T>* weighted;     // [batch, stride]: Σ Π w², Σ Π
  Sum<T>* chunk_sums;   // [batch, chunks, stride]
};

// m n / (n + Σ Π w²) = m / (1 + s) of a thread's channels; n = Σ Π + 1e-8.
template <int kPack, class S>
__device__ __forceinline__ Numbers<S, kPack> TssaAttention(const TssaBlock<kPack>& block,
                                                           const TssaPlace& place,
                                                           const S* weighted, const S* mask) {
  const S mass = weighted[block.width + block.first_head + place.head] + kTssaMass<S>;
  Numbers<S, kPack> attention = block.LoadSums(place, weighted);
#pragma unroll
  for (int i = 0; i < kPack; ++i) attention[i] = mass / (mass + attention[i]);
  if (mask != nullptr) {
    const Numbers<S, kPack> multiplier = block.LoadSums(place, mask);
#pragma unroll
    for (int i = 0; i < kPack; ++i) attention[i] *= multiplier[i];
  }
  return attention;
}

// y = −w Π m / (1 + s). A block is a chunk and some heads, a thread eight tokens of a pack.
template <class T, int kPack>
__global__ void __launch_bounds__(kTssaSomeThreads, kTssaWideBlocks)
    TssaWrite(TssaArguments<T> a, int heads_per_block) {
  using S = Sum<T>;
  const TssaBlock<kPack> block(a.extents, heads_per_block);
  const S* weighted = a.weighted + block.sequence * a.extents.stride();
  const S* mask = a.mask == nullptr ? nullptr : a.mask + block.sequence * block.width;
  for (int first = 0; first < block.packs; first += block.at_once) {
    const TssaPlace place = block.Place(first);
    const TssaTokens<S, kPack> w = block.Load(place, a.w);
    const Numbers<S, kPack> attention = TssaAttention(block, place, weighted, mask);
#pragma unroll
    for (int t = 0; t < kTssaRowTokens; ++t) {
      if (!block.Has(place, t)) continue;
      const S membership =
          a.memberships[block.HeadOffset(place.head, block.row * kTssaRowTokens + t)];
      Numbers<S, kPack> y;
#pragma unroll
      for (int i = 0; i < kPack; ++i) y[i] = w(t, i) * -membership * attention[i];
      StorePack(a.y + block.Offset(place) + t * block.width, y);
    }
  }
}

// Reads w three times (twice without normalisation) and writes y once: energies, memberships and y
// each need a sum over all tokens of what came before. One block could keep a sequence of up to
// 100 KiB on chip and read it once, but its loads, its arithmetic and its stores would then wait
// for each other.
template <int kPack, class T>
void LaunchTssa(const TssaArguments<T>& a, cudaStream_t stream) {
  const int width = a.extents.width();
  if (a.energy != nullptr) {
    LaunchTssaEnergySums<T, kPack>(a.extents, a.w, a.chunk_sums, stream);
    LaunchTssaTotals(a.extents, width, a.chunk_sums, a.energy, stream);
  }
  const TssaMembershipArguments<T> memberships{.extents = a.extents,
                                               .w = a.w,
                                               .temp = a.temp,
                                               .bias = nullptr,
                                               .bias_stride = 0,
                                               .energy = a.energy,
                                               .memberships = a.memberships,
                                               .weighted = a.chunk_sums};
  LaunchTssaMemberships</*kCausal=*/false, kPack>(memberships, stream);
  LaunchTssaTotals(a.extents, a.extents.columns(), a.chunk_sums, a.weighted, stream);
  const TssaLaunch launch(a.extents, kPack, /*all_heads=*/false);
  gpu::Launch(TssaWrite<T, kPack>, launch.grid, launch.block, 0, stream, a, launch.heads);
}

}  // namespace tost::cuda

#endif  // TOST_CUDA_TSSA_CUH_
