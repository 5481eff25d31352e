// Tssa, forward. Three passes over chunks of tokens with per-channel totals between them: energies,
// memberships and weighted energies, y. Without normalisation the first pass falls away: 1/D² is 1.
#include "ops/cpu/tssa.h"

#include "ops/cpu/tssa_tile.h"

namespace tost::ops::cpu {
namespace {

// y = −w Π · attention.
template <class A>
inline void WriteHead(int64_t d, A membership, const A* __restrict w, const A* __restrict attention,
                      A* __restrict y) {
#pragma omp simd
  for (int64_t i = 0; i < d; ++i) y[i] = w[i] * -membership * attention[i];
}

template <class T>
class TssaForward {
 public:
  using A = Accumulate<T>;

  TssaForward(const TssaInputs& in, Tensor& y, TssaSaved& saved)
      : dims_(in.dims),
        chunks_(ChunkCount(in.dims)),
        waves_(in.dims, /*whole_sequences=*/true),
        w_(in.w.data<T>()),
        temp_(in.temp.data<A>()),
        mask_(in.mask.defined() ? in.mask.data<A>() : nullptr),
        normalized_(in.normalized),
        y_(y.mutable_data<T>()) {
    const int64_t batch = dims_.batch, width = dims_.width(), heads = dims_.heads;
    memberships_ = Allocate(saved.memberships, {batch, dims_.tokens, heads});
    if (normalized_) energy_ = Allocate(saved.energy, {batch, width});
    weighted_ = Allocate(saved.weighted_energy, {batch, width});
    mass_ = Allocate(saved.mass, {batch, heads});
    channel_sums_ = Allocate(scratch_[0], {batch, chunks_, width});
    head_sums_ = Allocate(scratch_[1], {batch, chunks_, heads});
    factors_ = Allocate(scratch_[2], {batch, width});
  }

  void Run() {
    const int64_t width = dims_.width();
    waves_.ForEach(Direction::kForward, [&](const Wave& wave) {
      if (normalized_) {
        waves_.Run(wave, [&](const Chunk& chunk) { SumEnergy(chunk); });
        SumChunks(dims_, wave, width, channel_sums_, energy_);
      }
      ForSequences(wave, [&](int64_t sequence) { InvertEnergy(sequence); });
      waves_.Run(wave, [&](const Chunk& chunk) { FindMemberships(chunk); });
      SumChunks(dims_, wave, dims_.heads, head_sums_, mass_);
      SumChunks(dims_, wave, width, channel_sums_, weighted_);
      ForSequences(wave, [&](int64_t sequence) { FindAttention(sequence); });
      waves_.Run(wave, [&](const Chunk& chunk) { Write(chunk); });
    });
  }

 private:
  static A* Allocate(Tensor& tensor, Shape shape) {
    tensor = Tensor::Empty(shape, kDTypeOf<A>);
    return tensor.mutable_data<A>();
  }

  template <class Fn>
  void ForSequences(const Wave& wave, Fn fn) {
    ParallelFor(wave.sequences, RowGrain(dims_.width()), [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) fn(wave.first_sequence + i);
    });
  }

  const A* Token(const Chunk& chunk, int64_t t, A* buffer) const {
    const T* row = w_ + dims_.ChannelOffset(chunk.sequence, chunk.begin + t);
    return ReadRow(row, dims_.width(), buffer);
  }

  void SumEnergy(const Chunk& chunk) {
    const int64_t width = dims_.width();
    A* buffer = Scratch<A>(width);
    A* sums = channel_sums_ + chunk.index * width;
    std::fill_n(sums, width, A{0});
    for (int64_t t = 0; t < chunk.tokens; ++t) {
      AddSquares(width, A{1}, Token(chunk, t, buffer), sums);
    }
  }

  void InvertEnergy(int64_t sequence) {
    const int64_t width = dims_.width();
    A* inverse = factors_ + sequence * width;
    if (!normalized_) {
      std::fill_n(inverse, width, A{1});
      return;
    }
    const A* energy = energy_ + sequence * width;
    for (int64_t c = 0; c < width; ++c) inverse[c] = InverseTssaEnergy(energy[c]);
  }

  void FindMemberships(const Chunk& chunk) {
    const int64_t heads = dims_.heads, d = dims_.head_dim, width = dims_.width();
    const A* inverse = factors_ + chunk.sequence * width;
    A *tile = Scratch<A>(heads * kChunkTokens + width), *buffer = tile + heads * kChunkTokens;
    std::fill_n(tile, heads * kChunkTokens, A{0});
    for (int64_t t = 0; t < chunk.tokens; ++t) {
      const A* w = Token(chunk, t, buffer);
      for (int64_t h = 0; h < heads; ++h) {
        tile[h * kChunkTokens + t] = temp_[h] * SumWeightedSquares(d, w + h * d, inverse + h * d);
      }
    }
    SoftmaxOverHeads(heads, tile);
    StoreTile(tile, chunk.tokens, heads,
              memberships_ + dims_.MembershipOffset(chunk.sequence, chunk.begin));
    SumByMembership(chunk, tile, buffer);
  }

  void SumByMembership(const Chunk& chunk, const A* tile, A* buffer) {
    const int64_t heads = dims_.heads, d = dims_.head_dim;
    A* sums = channel_sums_ + chunk.index * dims_.width();
    A* mass = head_sums_ + chunk.index * heads;
    std::fill_n(sums, dims_.width(), A{0});
    std::fill_n(mass, heads, A{0});
    for (int64_t t = 0; t < chunk.tokens; ++t) {
      const A* w = Token(chunk, t, buffer);
      for (int64_t h = 0; h < heads; ++h) {
        const A membership = tile[h * kChunkTokens + t];
        mass[h] += membership;
        AddSquares(d, membership, w + h * d, sums + h * d);
      }
    }
  }

  // m / (1 + s) = m n / (n + Σ Π w²) with n = Σ Π + 1e-8.
  void FindAttention(int64_t sequence) {
    const int64_t d = dims_.head_dim;
    for (int64_t h = 0; h < dims_.heads; ++h) {
      const A mass = mass_[sequence * dims_.heads + h] + static_cast<A>(kTssaMassEpsilon);
      const int64_t at = (sequence * dims_.heads + h) * d;
      for (int64_t i = at; i < at + d; ++i) {
        factors_[i] = mass / (mass + weighted_[i]) * (mask_ != nullptr ? mask_[i] : A{1});
      }
    }
  }

  void Write(const Chunk& chunk) {
    const int64_t heads = dims_.heads, d = dims_.head_dim, width = dims_.width();
    const A* attention = factors_ + chunk.sequence * width;
    A *w_buffer = Scratch<A>(2 * width), *y_buffer = w_buffer + width;
    for (int64_t t = 0; t < chunk.tokens; ++t) {
      const int64_t token = chunk.begin + t;
      const A* membership = memberships_ + dims_.MembershipOffset(chunk.sequence, token);
      const A* w = Token(chunk, t, w_buffer);
      T* row = y_ + dims_.ChannelOffset(chunk.sequence, token);
      A* y = RowToWrite(row, /*add=*/false, y_buffer);
      for (int64_t h = 0; h < heads; ++h) {
        WriteHead(d, membership[h], w + h * d, attention + h * d, y + h * d);
      }
      FinishRow(y, width, /*add=*/false, row);
    }
  }

  TssaDims dims_;
  int64_t chunks_;
  Waves waves_;
  const T* w_;
  const A* temp_;
  const A* mask_;
  bool normalized_;
  T* y_;
  A* memberships_;
  A* energy_ = nullptr;  // with normalisation
  A* weighted_;
  A* mass_;
  Tensor scratch_[3];
  A* channel_sums_;  // per chunk: of w², then of Π w²
  A* head_sums_;     // per chunk: of Π
  A* factors_;       // per sequence and channel: 1/D², then m / (1 + s)
};

}  // namespace

void Tssa(const TssaInputs& in, Tensor& y, TssaSaved& saved) {
  VisitFloat(in.w.dtype(), [&](auto zero) { TssaForward<decltype(zero)>(in, y, saved).Run(); });
}

}  // namespace tost::ops::cpu
