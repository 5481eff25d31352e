// CausalTssa, backward. With G = dL/dy, n = Σ Π + 1e-8, N = Σ Π w² and the multipliers m, a token's
// own part of the gradient needs r = 1/(n + N) only:
//
//   g = n r                         (1/(1 + N/n))
//   z = Π g r · (m G w)             gradient reaching N through this token's output
//   p = −(Σ_i z N) / n              and reaching Σ Π
//   RM = Σ_{r>=t} z,  RP = Σ_{r>=t} p
//   dΠ = −Σ_i g (m G w) + Σ_i w² RM + RP
//   da = Π (dΠ − Σ_heads Π dΠ),  du = temp · da
//   x  = du w² / D²  (0 where D is clamped),  RX = Σ_{r>t} x
//   dw = −G Π g m + 2 w (Π RM + du · own − RX)
//   own = E[t−1] / D²  (1/D where clamped): 1/D − w²/D² without its cancellation
//
// The passes mirror the forward's, from the last chunk to the first: R1 finds z and p, R2 dΠ, da
// and x, R3 dw. Between them lie running sums over later chunks. Inside a wave R1 leaves z, and R2
// leaves x in its place, in scratch memory; dw gathers its parts in fp32.
#include <type_traits>

#include "ops/cpu/tssa.h"
#include "ops/cpu/tssa_tile.h"

namespace tost::ops::cpu {
namespace {

// The two sums over the channels of a head that R1 forms.
template <class A>
struct OwnSums {
  A membership;  // Σ g (m G w)
  A mass;        // Σ z N
};

// R1, one head of one token: weighted += Π w², then z and −G Π g m.
template <class A>
inline OwnSums<A> OwnGradients(int64_t d, A membership, A mass, const A* w_row, const A* dy_row,
                               const A* mask_row, A* weighted_row, A* z_row, A* partial_row,
                               A* sums_row) {
  Lanes<A> to_membership = {}, to_mass = {};
  ForLanes<A>(d, [&](auto place) {
    const Lanes<A> w = place.Load(w_row);
    const Lanes<A> weighted = place.Load(weighted_row) + membership * (w * w);
    place.Store(weighted_row, weighted);
    const Lanes<A> r = 1 / (mass + weighted);
    const Lanes<A> gradient = mass * r * place.Load(mask_row) * place.Load(dy_row);
    const Lanes<A> own = gradient * w;
    const Lanes<A> z = membership * own * r;
    place.Store(z_row, z);
    place.Store(sums_row, place.Load(sums_row) + z);
    place.Store(partial_row, -membership * gradient);
    to_membership += own;
    to_mass += z * weighted;
  });
  return {SumLanes(to_membership), SumLanes(to_mass)};
}

// R2, tokens from the last: RM += z; z becomes RM; returns Σ w² RM.
template <class A>
inline A AddLater(int64_t d, const A* w_row, A* z_row, A* later_row) {
  Lanes<A> sum = {};
  ForLanes<A>(d, [&](auto place) {
    const Lanes<A> w = place.Load(w_row);
    const Lanes<A> later = place.Load(later_row) + place.Load(z_row);
    place.Store(later_row, later);
    place.Store(z_row, later);
    sum += w * w * later;
  });
  return SumLanes(sum);
}

// R2, tokens from the first: energy += w²; `later` holds RM and becomes x; partial gains
// 2 w (Π RM + du own). Returns the head's Σ w²/D.
template <class A>
inline A ShareGradients(int64_t d, A membership, A du, const A* w_row, A* energy_row, A* later_row,
                        A* partial_row, A* sums_row) {
  constexpr A kMin = static_cast<A>(kCausalTssaMinEnergy);
  Lanes<A> share = {};
  ForLanes<A>(d, [&](auto place) {
    const Lanes<A> w = place.Load(w_row), before = place.Load(energy_row);
    const Lanes<A> energy = before + w * w;
    place.Store(energy_row, energy);
    const Lanes<A> inverse = 1 / (energy >= kMin ? energy : Lanes<A>{} + kMin);
    const Lanes<A> fraction = w * w * inverse;
    share += fraction;
    const Lanes<A> own = (energy >= kMin ? before * inverse : Lanes<A>{} + 1) * inverse;
    const Lanes<A> x = energy >= kMin ? du * fraction * inverse : Lanes<A>{};
    place.Store(partial_row,
                place.Load(partial_row) + 2 * w * (membership * place.Load(later_row) + du * own));
    place.Store(later_row, x);
    place.Store(sums_row, place.Load(sums_row) + x);
  });
  return SumLanes(share);
}

// R3, tokens from the last: partial −= 2 w RX, which completes it, then RX += x.
template <class A>
inline void AddEarlier(int64_t width, const A* __restrict w, const A* __restrict x,
                       A* __restrict later, A* __restrict partial) {
#pragma omp simd
  for (int64_t i = 0; i < width; ++i) {
    partial[i] -= 2 * w[i] * later[i];
    later[i] += x[i];
  }
}

template <class T>
class CausalBackward {
 public:
  using A = Accumulate<T>;

  CausalBackward(const TssaInputs& in, const TssaSaved& saved, const Tensor& dy,
                 const TssaGradients& gradients)
      : dims_(in.dims),
        chunks_(ChunkCount(in.dims)),
        waves_(in.dims, /*whole_sequences=*/false),
        gradients_(gradients),
        w_(in.w.data<T>()),
        temp_(in.temp.data<A>()),
        bias_(in.denom_bias.data<A>()),
        block_(in.denom_bias.shape()[1]),
        memberships_(saved.memberships.data<A>()),
        energy_(saved.energy.data<A>()),
        weighted_(saved.weighted_energy.data<A>()),
        mass_(saved.mass.data<A>()),
        dy_(dy.data<T>()) {
    const int64_t width = dims_.width(), heads = dims_.heads, slots = waves_.slots();
    channel_sums_ = Allocate({dims_.batch, chunks_, width});
    head_sums_ = Allocate({dims_.batch, chunks_, heads});
    temp_sums_ = Allocate({dims_.batch, chunks_, heads});
    logit_gradients_ = Allocate({dims_.batch, dims_.tokens, heads});
    later_ = Allocate({slots, kChunkTokens, width});
    own_ = Allocate({slots, 2, heads, kChunkTokens});
    if (in.mask.defined()) {
      mask_ = in.mask.data<A>();
    } else {
      ones_.assign(static_cast<size_t>(width), A{1});
    }
    if (gradients.w.out != nullptr) dw_ = gradients.w.out->mutable_data<T>();
    if (!std::is_same_v<T, A> || dw_ == nullptr || gradients.w.add) {
      partial_ = Allocate({slots, kChunkTokens, width});
    }
  }

  void Run() {
    const int64_t width = dims_.width(), heads = dims_.heads;
    double *carry_z = Zeros(width), *carry_p = Zeros(heads), *carry_x = Zeros(width);
    waves_.ForEach(Direction::kReverse, [&](const Wave& wave) {
      waves_.Run(wave, [&](const Chunk& chunk) { FindOwn(chunk); });
      ScanChunkSums(dims_, wave, Direction::kReverse, width, channel_sums_, carry_z);
      ScanChunkSums(dims_, wave, Direction::kReverse, heads, head_sums_, carry_p);
      waves_.Run(wave, [&](const Chunk& chunk) { FindLogits(chunk); });
      if (dw_ == nullptr) return;
      ScanChunkSums(dims_, wave, Direction::kReverse, width, channel_sums_, carry_x);
      waves_.Run(wave, [&](const Chunk& chunk) { Write(chunk); });
    });
    if (gradients_.temp.out != nullptr) {
      SumTemperatureGradient(temp_sums_, dims_.batch * chunks_, heads, gradients_.temp);
    }
    if (gradients_.denom_bias.out != nullptr) WriteBiasGradient();
  }

 private:
  A* Allocate(Shape shape) {
    memory_.push_back(Tensor::Empty(shape, kDTypeOf<A>));
    return memory_.back().template mutable_data<A>();
  }
  double* Zeros(int64_t width) {
    memory_.push_back(Tensor::Zeros({dims_.batch, width}, DType::kFloat64));
    return memory_.back().template mutable_data<double>();
  }

  int64_t Row(const Chunk& chunk, int64_t t) const {
    return dims_.ChannelOffset(chunk.sequence, chunk.begin + t);
  }
  A* Later(const Chunk& chunk, int64_t t) {
    return later_ + (chunk.slot * kChunkTokens + t) * dims_.width();
  }
  // Where the parts of a row of dw meet: in dw itself if they can.
  A* Partial(const Chunk& chunk, int64_t t) {
    A* scratch = partial_ + (chunk.slot * kChunkTokens + t) * dims_.width();
    return partial_ != nullptr ? scratch
                               : RowToWrite(dw_ + Row(chunk, t), gradients_.w.add, scratch);
  }
  // Tiles of −Σ g (m G w) and of p.
  A* OwnMembership(const Chunk& chunk) {
    return own_ + chunk.slot * 2 * dims_.heads * kChunkTokens;
  }
  A* OwnMass(const Chunk& chunk) { return OwnMembership(chunk) + dims_.heads * kChunkTokens; }

  void FindOwn(const Chunk& chunk) {  // R1
    const int64_t heads = dims_.heads, d = dims_.head_dim, width = dims_.width();
    A* weighted = Scratch<A>(3 * width + heads);
    A *w_buffer = weighted + width, *dy_buffer = w_buffer + width, *mass = dy_buffer + width;
    std::copy_n(weighted_ + chunk.index * width, width, weighted);
    std::copy_n(mass_ + chunk.index * heads, heads, mass);
    A *to_membership = OwnMembership(chunk), *to_mass = OwnMass(chunk);
    std::fill_n(to_membership, 2 * heads * kChunkTokens, A{0});
    A *sums = channel_sums_ + chunk.index * width, *mass_sums = head_sums_ + chunk.index * heads;
    std::fill_n(sums, width, A{0});
    std::fill_n(mass_sums, heads, A{0});
    for (int64_t t = 0; t < chunk.tokens; ++t) {
      const int64_t row = Row(chunk, t);
      const A* membership = memberships_ + dims_.MembershipOffset(chunk.sequence, chunk.begin + t);
      const A* mask = mask_ != nullptr ? mask_ + row : ones_.data();
      const A* w = ReadRow(w_ + row, width, w_buffer);
      const A* dy = ReadRow(dy_ + row, width, dy_buffer);
      A *z = Later(chunk, t), *partial = Partial(chunk, t);
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t c = h * d;
        mass[h] += membership[h];
        const A n = mass[h] + static_cast<A>(kTssaMassEpsilon);
        const OwnSums<A> own = OwnGradients(d, membership[h], n, w + c, dy + c, mask + c,
                                            weighted + c, z + c, partial + c, sums + c);
        to_membership[h * kChunkTokens + t] = -own.membership;
        to_mass[h * kChunkTokens + t] = -own.mass / n;
        mass_sums[h] -= own.mass / n;
      }
    }
  }

  void FindLogits(const Chunk& chunk) {  // R2
    const int64_t heads = dims_.heads, d = dims_.head_dim, width = dims_.width();
    A* later = Scratch<A>(2 * width + heads * kChunkTokens);
    A *buffer = later + width, *membership = buffer + width;
    std::copy_n(channel_sums_ + chunk.index * width, width, later);
    A *tile = OwnMembership(chunk), *later_mass = OwnMass(chunk);
    for (int64_t h = 0; h < heads; ++h) {
      A total = head_sums_[chunk.index * heads + h];
      for (int64_t t = chunk.tokens - 1; t >= 0; --t) {
        tile[h * kChunkTokens + t] += total += later_mass[h * kChunkTokens + t];
      }
    }
    for (int64_t t = chunk.tokens - 1; t >= 0; --t) {
      const A* w = ReadRow(w_ + Row(chunk, t), width, buffer);
      A* z = Later(chunk, t);
      for (int64_t h = 0; h < heads; ++h) {
        tile[h * kChunkTokens + t] += AddLater(d, w + h * d, z + h * d, later + h * d);
      }
    }
    const int64_t at = dims_.MembershipOffset(chunk.sequence, chunk.begin);
    LoadTile(memberships_ + at, chunk.tokens, heads, membership);
    SoftmaxOverHeadsBackward(heads, membership, tile);
    StoreTile(tile, chunk.tokens, heads, logit_gradients_ + at);
    FindShares(chunk, membership, tile, /*energy=*/later, buffer);
  }

  // The second half of R2, from the gradients of the logits on.
  void FindShares(const Chunk& chunk, const A* membership, const A* logit_gradient, A* energy,
                  A* buffer) {
    const int64_t heads = dims_.heads, d = dims_.head_dim, width = dims_.width();
    std::copy_n(energy_ + chunk.index * width, width, energy);
    A *sums = channel_sums_ + chunk.index * width, *temp_sums = temp_sums_ + chunk.index * heads;
    std::fill_n(sums, width, A{0});
    std::fill_n(temp_sums, heads, A{0});
    for (int64_t t = 0; t < chunk.tokens; ++t) {
      const A* w = ReadRow(w_ + Row(chunk, t), width, buffer);
      A *later = Later(chunk, t), *partial = Partial(chunk, t);
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t c = h * d;
        const A da = logit_gradient[h * kChunkTokens + t];
        const A share = ShareGradients(d, membership[h * kChunkTokens + t], temp_[h] * da, w + c,
                                       energy + c, later + c, partial + c, sums + c);
        const A bias = bias_[h * block_ + chunk.begin + t];
        temp_sums[h] += da * (share + static_cast<A>(d) * bias);
      }
    }
  }

  void Write(const Chunk& chunk) {  // R3
    const int64_t width = dims_.width();
    A *later = Scratch<A>(2 * width), *buffer = later + width;
    std::copy_n(channel_sums_ + chunk.index * width, width, later);
    for (int64_t t = chunk.tokens - 1; t >= 0; --t) {
      const int64_t row = Row(chunk, t);
      A* partial = Partial(chunk, t);
      AddEarlier(width, ReadRow(w_ + row, width, buffer), Later(chunk, t), later, partial);
      FinishRow(partial, width, gradients_.w.add, dw_ + row);
    }
  }

  // dbias[h,t] = d · temp_h · Σ_b da[b,t,h].
  void WriteBiasGradient() {
    const GradientOut& to = gradients_.denom_bias;
    A* out = to.out->template mutable_data<A>();
    const int64_t heads = dims_.heads;
    ParallelFor(block_, RowGrain(heads * dims_.batch), [&](int64_t first, int64_t last) {
      for (int64_t t = first; t < last; ++t) {
        for (int64_t h = 0; h < heads; ++h) {
          A sum = 0;
          for (int64_t b = 0; t < dims_.tokens && b < dims_.batch; ++b) {
            sum += logit_gradients_[dims_.MembershipOffset(b, t, h)];
          }
          sum *= static_cast<A>(dims_.head_dim) * temp_[h];
          A& entry = out[h * block_ + t];
          entry = to.add ? entry + sum : sum;
        }
      }
    });
  }

  TssaDims dims_;
  int64_t chunks_;
  Waves waves_;
  TssaGradients gradients_;
  const T* w_;
  const A* temp_;
  const A* bias_;
  int64_t block_;
  const A* memberships_;
  const A* energy_;  // sums before each chunk, as the forward left them
  const A* weighted_;
  const A* mass_;
  const T* dy_;
  const A* mask_ = nullptr;
  std::vector<A> ones_;
  T* dw_ = nullptr;

  std::vector<Tensor> memory_;
  A* channel_sums_;       // per chunk: of z, then sums of z over later chunks; the same for x
  A* head_sums_;          // of p likewise
  A* temp_sums_;          // per chunk: Σ da u
  A* logit_gradients_;    // da [B, T, H]
  A* later_;              // per wave: z, then RM, then x
  A* partial_ = nullptr;  // per wave: parts of dw, where dw itself cannot hold them
  A* own_;
};

}  // namespace

void CausalTssaBackward(const TssaInputs& in, const TssaSaved& saved, const Tensor& dy,
                        const TssaGradients& gradients) {
  VisitFloat(in.w.dtype(),
             [&](auto zero) { CausalBackward<decltype(zero)>(in, saved, dy, gradients).Run(); });
}

}  // namespace tost::ops::cpu
