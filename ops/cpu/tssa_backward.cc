// Tssa, backward. With G = dL/dy, n = Σ Π + 1e-8, g = 1/(1 + s) and the multipliers m, per channel:
//
//   attention = g m,  inverse = 1/D²
//   through   = g² m (Σ_n G w Π) / n          = ∂L/∂s / n
//
// per token
//
//   dΠ = Σ_i w (w · through − G · attention) − Σ_i through · s
//   da = Π (dΠ − Σ_heads Π dΠ),  dq = temp · da,  dtemp = Σ da q
//
// and, with Θ = Σ_n dq w² / D² (0 where D is clamped),
//
//   dw = −G Π attention + 2 w (through Π + (dq − Θ) inverse).
//
// dq − Θ is formed before anything else: for a single token it cancels exactly. Without
// normalisation q does not depend on the other tokens: inverse = 1 and Θ = 0.
#include "ops/cpu/tssa.h"
#include "ops/cpu/tssa_tile.h"

namespace tost::ops::cpu {
namespace {

// sums += Π G w.
template <class A>
inline void AddCorrelation(int64_t d, A membership, const A* __restrict w, const A* __restrict dy,
                           A* __restrict sums) {
#pragma omp simd
  for (int64_t i = 0; i < d; ++i) sums[i] += membership * (w[i] * dy[i]);
}

// Σ w (w · through − G · attention).
template <class A>
inline A MembershipGradient(int64_t d, const A* w_row, const A* dy_row, const A* attention_row,
                            const A* through_row) {
  Lanes<A> sum = {};
  ForLanes<A>(d, [&](auto place) {
    const Lanes<A> w = place.Load(w_row);
    sum += w * (w * place.Load(through_row) - place.Load(dy_row) * place.Load(attention_row));
  });
  return SumLanes(sum);
}

// Per-channel values of one sequence.
template <class A>
struct Factors {
  A* attention;
  A* through;
  A* inverse;
  A* theta;
};

template <class A>
inline void WriteHeadGradient(int64_t d, A membership, A dq, const A* __restrict w,
                              const A* __restrict dy, const Factors<A>& factors, int64_t at,
                              A* __restrict dw) {
  const A* __restrict attention = factors.attention + at;
  const A* __restrict through = factors.through + at;
  const A* __restrict inverse = factors.inverse + at;
  const A* __restrict theta = factors.theta + at;
#pragma omp simd
  for (int64_t i = 0; i < d; ++i) {
    const A bracket = membership * through[i] + (dq - theta[i]) * inverse[i];
    dw[i] = 2 * w[i] * bracket - membership * dy[i] * attention[i];
  }
}

template <class T>
class TssaBackwardPass {
 public:
  using A = Accumulate<T>;

  TssaBackwardPass(const TssaInputs& in, const TssaSaved& saved, const Tensor& dy,
                   const TssaGradients& gradients)
      : dims_(in.dims),
        chunks_(ChunkCount(in.dims)),
        waves_(in.dims, /*whole_sequences=*/true),
        gradients_(gradients),
        w_(in.w.data<T>()),
        temp_(in.temp.data<A>()),
        mask_(in.mask.defined() ? in.mask.data<A>() : nullptr),
        memberships_(saved.memberships.data<A>()),
        normalized_(in.normalized),
        energy_(in.normalized ? saved.energy.data<A>() : nullptr),
        weighted_(saved.weighted_energy.data<A>()),
        mass_(saved.mass.data<A>()),
        dy_(dy.data<T>()) {
    const int64_t batch = dims_.batch, width = dims_.width(), heads = dims_.heads;
    channel_sums_ = Allocate({batch, chunks_, width});
    temp_sums_ = Allocate({batch, chunks_, heads});
    logit_gradients_ = Allocate({batch, dims_.tokens, heads});
    factors_ = Allocate({batch, 4, width});
    offsets_ = Allocate({batch, heads});
    totals_ = Allocate({batch, width});
    if (gradients.w.out != nullptr) dw_ = gradients.w.out->mutable_data<T>();
  }

  void Run() {
    const int64_t width = dims_.width();
    waves_.ForEach(Direction::kForward, [&](const Wave& wave) {
      waves_.Run(wave, [&](const Chunk& chunk) { SumCorrelation(chunk); });
      SumChunks(dims_, wave, width, channel_sums_, totals_);
      ForSequences(wave, [&](int64_t sequence) { FindFactors(sequence); });
      waves_.Run(wave, [&](const Chunk& chunk) { FindLogits(chunk); });
      if (dw_ == nullptr) return;
      if (normalized_) {
        SumChunks(dims_, wave, width, channel_sums_, totals_);
        ForSequences(wave, [&](int64_t sequence) { FindTheta(sequence); });
      }
      waves_.Run(wave, [&](const Chunk& chunk) { Write(chunk); });
    });
    if (gradients_.temp.out != nullptr) {
      SumTemperatureGradient(temp_sums_, dims_.batch * chunks_, dims_.heads, gradients_.temp);
    }
  }

 private:
  A* Allocate(Shape shape) {
    memory_.push_back(Tensor::Empty(shape, kDTypeOf<A>));
    return memory_.back().template mutable_data<A>();
  }

  template <class Fn>
  void ForSequences(const Wave& wave, Fn fn) {
    ParallelFor(wave.sequences, RowGrain(dims_.width()), [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) fn(wave.first_sequence + i);
    });
  }

  Factors<A> FactorsOf(int64_t sequence) const {
    const int64_t width = dims_.width();
    A* row = factors_ + sequence * 4 * width;
    return {row, row + width, row + 2 * width, row + 3 * width};
  }

  const A* Row(const T* x, const Chunk& chunk, int64_t t, A* buffer) const {
    return ReadRow(x + dims_.ChannelOffset(chunk.sequence, chunk.begin + t), dims_.width(), buffer);
  }

  void SumCorrelation(const Chunk& chunk) {
    const int64_t heads = dims_.heads, d = dims_.head_dim, width = dims_.width();
    A *w_buffer = Scratch<A>(2 * width), *dy_buffer = w_buffer + width;
    A* sums = channel_sums_ + chunk.index * width;
    std::fill_n(sums, width, A{0});
    for (int64_t t = 0; t < chunk.tokens; ++t) {
      const A* membership = memberships_ + dims_.MembershipOffset(chunk.sequence, chunk.begin + t);
      const A* w = Row(w_, chunk, t, w_buffer);
      const A* dy = Row(dy_, chunk, t, dy_buffer);
      for (int64_t h = 0; h < heads; ++h) {
        AddCorrelation(d, membership[h], w + h * d, dy + h * d, sums + h * d);
      }
    }
  }

  void FindFactors(int64_t sequence) {
    const int64_t d = dims_.head_dim, width = dims_.width();
    const Factors<A> factors = FactorsOf(sequence);
    for (int64_t h = 0; h < dims_.heads; ++h) {
      const A n = mass_[sequence * dims_.heads + h] + static_cast<A>(kTssaMassEpsilon);
      A offset = 0;
      for (int64_t c = h * d; c < (h + 1) * d; ++c) {
        const int64_t at = sequence * width + c;
        const A g = n / (n + weighted_[at]);
        factors.attention[c] = g * (mask_ != nullptr ? mask_[at] : A{1});
        factors.through[c] = g * factors.attention[c] * totals_[at] / n;
        factors.inverse[c] = normalized_ ? InverseTssaEnergy(energy_[at]) : A{1};
        factors.theta[c] = 0;
        offset += factors.through[c] * (weighted_[at] / n);
      }
      offsets_[sequence * dims_.heads + h] = offset;
    }
  }

  void FindLogits(const Chunk& chunk) {
    const int64_t heads = dims_.heads, d = dims_.head_dim, width = dims_.width();
    const Factors<A> factors = FactorsOf(chunk.sequence);
    A* membership = Scratch<A>(2 * heads * kChunkTokens + 2 * width);
    A* tile = membership + heads * kChunkTokens;
    A *w_buffer = tile + heads * kChunkTokens, *dy_buffer = w_buffer + width;
    const int64_t first = dims_.MembershipOffset(chunk.sequence, chunk.begin);
    LoadTile(memberships_ + first, chunk.tokens, heads, membership);
    std::fill_n(tile, heads * kChunkTokens, A{0});
    for (int64_t t = 0; t < chunk.tokens; ++t) {
      const A* w = Row(w_, chunk, t, w_buffer);
      const A* dy = Row(dy_, chunk, t, dy_buffer);
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t c = h * d;
        tile[h * kChunkTokens + t] =
            MembershipGradient(d, w + c, dy + c, factors.attention + c, factors.through + c) -
            offsets_[chunk.sequence * heads + h];
      }
    }
    SoftmaxOverHeadsBackward(heads, membership, tile);
    StoreTile(tile, chunk.tokens, heads, logit_gradients_ + first);
    SumShares(chunk, tile, factors.inverse, w_buffer);
  }

  // Σ dq w² per channel and Σ da q per head.
  void SumShares(const Chunk& chunk, const A* tile, const A* inverse, A* buffer) {
    const int64_t heads = dims_.heads, d = dims_.head_dim;
    A* sums = channel_sums_ + chunk.index * dims_.width();
    A* temp_sums = temp_sums_ + chunk.index * heads;
    std::fill_n(sums, dims_.width(), A{0});
    std::fill_n(temp_sums, heads, A{0});
    for (int64_t t = 0; t < chunk.tokens; ++t) {
      const A* w = Row(w_, chunk, t, buffer);
      for (int64_t h = 0; h < heads; ++h) {
        const A da = tile[h * kChunkTokens + t];
        temp_sums[h] += da * SumWeightedSquares(d, w + h * d, inverse + h * d);
        AddSquares(d, temp_[h] * da, w + h * d, sums + h * d);
      }
    }
  }

  void FindTheta(int64_t sequence) {
    const Factors<A> factors = FactorsOf(sequence);
    for (int64_t c = 0; c < dims_.width(); ++c) {
      const int64_t at = sequence * dims_.width() + c;
      const bool live = energy_[at] >= static_cast<A>(kTssaMinEnergy);
      factors.theta[c] = live ? totals_[at] * factors.inverse[c] : A{0};
    }
  }

  void Write(const Chunk& chunk) {
    const int64_t heads = dims_.heads, d = dims_.head_dim, width = dims_.width();
    const Factors<A> factors = FactorsOf(chunk.sequence);
    A* w_buffer = Scratch<A>(3 * width);
    A *dy_buffer = w_buffer + width, *dw_buffer = dy_buffer + width;
    for (int64_t t = 0; t < chunk.tokens; ++t) {
      const int64_t first = dims_.MembershipOffset(chunk.sequence, chunk.begin + t);
      const A* w = Row(w_, chunk, t, w_buffer);
      const A* dy = Row(dy_, chunk, t, dy_buffer);
      T* row = dw_ + first * d;
      A* dw = RowToWrite(row, gradients_.w.add, dw_buffer);
      for (int64_t h = 0; h < heads; ++h) {
        WriteHeadGradient(d, memberships_[first + h], temp_[h] * logit_gradients_[first + h],
                          w + h * d, dy + h * d, factors, h * d, dw + h * d);
      }
      FinishRow(dw, width, gradients_.w.add, row);
    }
  }

  TssaDims dims_;
  int64_t chunks_;
  Waves waves_;
  TssaGradients gradients_;
  const T* w_;
  const A* temp_;
  const A* mask_;
  const A* memberships_;
  bool normalized_;
  const A* energy_;
  const A* weighted_;
  const A* mass_;
  const T* dy_;
  T* dw_ = nullptr;

  std::vector<Tensor> memory_;
  A* channel_sums_;     // per chunk: of Π G w, then of dq w²
  A* temp_sums_;        // per chunk: Σ da q
  A* logit_gradients_;  // da [B, N, H]
  A* factors_;          // [B, 4, C]
  A* offsets_;          // [B, H]: Σ_i through · s
  A* totals_;           // channel_sums_ over the chunks of a sequence
};

}  // namespace

void TssaBackward(const TssaInputs& in, const TssaSaved& saved, const Tensor& dy,
                  const TssaGradients& gradients) {
  VisitFloat(in.w.dtype(),
             [&](auto zero) { TssaBackwardPass<decltype(zero)>(in, saved, dy, gradients).Run(); });
}

}  // namespace tost::ops::cpu
