// CausalTssa, forward. Three passes over chunks of tokens with a running sum over chunks between
// them: F1 adds up energies, F2 finds memberships and adds up weighted energies, F3 writes y.
// Inside a chunk the sums over earlier tokens live in one row of width C, updated token by token;
// the innermost loops run over the channels of a head.
#include "ops/cpu/tssa.h"
#include "ops/cpu/tssa_tile.h"

namespace tost::ops::cpu {
namespace {

// energy += w²; returns the head's Σ w² / max(energy, 1e-12).
template <class A>
inline A AddEnergyAndShare(int64_t d, const A* w_row, A* energy_row) {
  constexpr A kMin = static_cast<A>(kCausalTssaMinEnergy);
  Lanes<A> share = {};
  ForLanes<A>(d, [&](auto place) {
    const Lanes<A> w = place.Load(w_row);
    const Lanes<A> energy = place.Load(energy_row) + w * w;
    place.Store(energy_row, energy);
    share += w * w / (energy > kMin ? energy : Lanes<A>{} + kMin);
  });
  return SumLanes(share);
}

// weighted += Π w²; y = −w Π m / (1 + weighted / mass), with one division per channel.
template <class A>
inline void AddWeightedAndWrite(int64_t d, A membership, A mass, const A* __restrict w,
                                const A* __restrict mask, A* __restrict weighted, A* __restrict y) {
  const A scale = -membership * mass;
#pragma omp simd
  for (int64_t i = 0; i < d; ++i) {
    const A sum = weighted[i] + membership * (w[i] * w[i]);
    weighted[i] = sum;
    y[i] = w[i] * scale * mask[i] / (mass + sum);
  }
}

template <class T>
class CausalForward {
 public:
  using A = Accumulate<T>;

  CausalForward(const TssaInputs& in, Tensor& y, TssaSaved& saved)
      : dims_(in.dims),
        w_(in.w.data<T>()),
        temp_(in.temp.data<A>()),
        bias_(in.denom_bias.data<A>() + in.position),
        block_(in.denom_bias.shape()[1]),
        y_(y.mutable_data<T>()) {
    const int64_t chunks = ChunkCount(dims_);
    const auto allocate = [&](Tensor& tensor, int64_t rows, int64_t columns) {
      tensor = Tensor::Empty({dims_.batch, rows, columns}, kDTypeOf<A>);
      return tensor.mutable_data<A>();
    };
    memberships_ = allocate(saved.memberships, dims_.tokens, dims_.heads);
    energy_ = allocate(saved.energy, chunks, dims_.width());
    weighted_ = allocate(saved.weighted_energy, chunks, dims_.width());
    mass_ = allocate(saved.mass, chunks, dims_.heads);
    if (in.mask.defined()) {
      mask_ = in.mask.data<A>();
    } else {
      ones_.assign(static_cast<size_t>(dims_.width()), A{1});
    }
  }

  // carry_* hold the sums before the first token, and on return those over all tokens.
  void Run(double* carry_energy, double* carry_weighted, double* carry_mass) {
    const Waves waves(dims_, /*whole_sequences=*/false);
    const int64_t width = dims_.width();
    waves.ForEach(Direction::kForward, [&](const Wave& wave) {
      waves.Run(wave, [&](const Chunk& chunk) { SumEnergy(chunk); });
      ScanChunkSums(dims_, wave, Direction::kForward, width, energy_, carry_energy);
      waves.Run(wave, [&](const Chunk& chunk) { FindMemberships(chunk); });
      ScanChunkSums(dims_, wave, Direction::kForward, width, weighted_, carry_weighted);
      ScanChunkSums(dims_, wave, Direction::kForward, dims_.heads, mass_, carry_mass);
      waves.Run(wave, [&](const Chunk& chunk) { Write(chunk); });
    });
  }

 private:
  void SumEnergy(const Chunk& chunk) {
    const int64_t width = dims_.width();
    A* buffer = Scratch<A>(width);
    A* sums = energy_ + chunk.index * width;
    std::fill_n(sums, width, A{0});
    for (int64_t t = 0; t < chunk.tokens; ++t) {
      AddSquares(width, A{1}, ReadRow(Token(chunk, t), width, buffer), sums);
    }
  }

  void FindMemberships(const Chunk& chunk) {
    const int64_t heads = dims_.heads, d = dims_.head_dim, width = dims_.width();
    A* energy = Scratch<A>(2 * width + heads * kChunkTokens);
    A *buffer = energy + width, *tile = buffer + width;
    std::copy_n(energy_ + chunk.index * width, width, energy);
    std::fill_n(tile, heads * kChunkTokens, A{0});
    for (int64_t t = 0; t < chunk.tokens; ++t) {
      const A* w = ReadRow(Token(chunk, t), width, buffer);
      for (int64_t h = 0; h < heads; ++h) {
        const A share = AddEnergyAndShare(d, w + h * d, energy + h * d);
        // The bias is added to each of the head's d channels, hence the factor.
        const A bias = bias_[h * block_ + chunk.begin + t];
        tile[h * kChunkTokens + t] = temp_[h] * (share + static_cast<A>(d) * bias);
      }
    }
    SoftmaxOverHeads(heads, tile);
    StoreTile(tile, chunk.tokens, heads,
              memberships_ + dims_.MembershipOffset(chunk.sequence, chunk.begin));
    SumWeighted(chunk, tile, buffer);
  }

  void SumWeighted(const Chunk& chunk, const A* tile, A* buffer) {
    const int64_t heads = dims_.heads, d = dims_.head_dim, width = dims_.width();
    A *weighted = weighted_ + chunk.index * width, *mass = mass_ + chunk.index * heads;
    std::fill_n(weighted, width, A{0});
    std::fill_n(mass, heads, A{0});
    for (int64_t t = 0; t < chunk.tokens; ++t) {
      const A* w = ReadRow(Token(chunk, t), width, buffer);
      for (int64_t h = 0; h < heads; ++h) {
        const A membership = tile[h * kChunkTokens + t];
        mass[h] += membership;
        AddSquares(d, membership, w + h * d, weighted + h * d);
      }
    }
  }

  void Write(const Chunk& chunk) {
    const int64_t heads = dims_.heads, d = dims_.head_dim, width = dims_.width();
    A* weighted = Scratch<A>(3 * width + heads);
    A *w_buffer = weighted + width, *y_buffer = w_buffer + width, *mass = y_buffer + width;
    std::copy_n(weighted_ + chunk.index * width, width, weighted);
    std::copy_n(mass_ + chunk.index * heads, heads, mass);
    for (int64_t t = 0; t < chunk.tokens; ++t) {
      const int64_t row = dims_.ChannelOffset(chunk.sequence, chunk.begin + t);
      const A* membership = memberships_ + dims_.MembershipOffset(chunk.sequence, chunk.begin + t);
      const A* mask = mask_ != nullptr ? mask_ + row : ones_.data();
      const A* w = ReadRow(w_ + row, width, w_buffer);
      A* y = RowToWrite(y_ + row, /*add=*/false, y_buffer);
      for (int64_t h = 0; h < heads; ++h) {
        mass[h] += membership[h];
        AddWeightedAndWrite(d, membership[h], mass[h] + static_cast<A>(kTssaMassEpsilon), w + h * d,
                            mask + h * d, weighted + h * d, y + h * d);
      }
      FinishRow(y, width, /*add=*/false, y_ + row);
    }
  }

  const T* Token(const Chunk& chunk, int64_t t) const {
    return w_ + dims_.ChannelOffset(chunk.sequence, chunk.begin + t);
  }

  TssaDims dims_;
  const T* w_;
  const A* temp_;
  const A* bias_;  // of the first token
  int64_t block_;
  const A* mask_ = nullptr;
  std::vector<A> ones_;  // a row of the mask where there is none
  T* y_;
  A* memberships_;
  // Per chunk: first its own sums, then those of all chunks before it.
  A* energy_;
  A* weighted_;
  A* mass_;
};

// Running sums over chunks, in double; from and to the state of a decoder.
class Carry {
 public:
  Carry(const TssaDims& dims, int64_t width)
      : sums_(Tensor::Zeros({dims.batch, width}, DType::kFloat64)) {}

  template <class A>
  void Load(const Tensor& state) {
    std::copy_n(state.data<A>(), state.numel(), data());
  }
  template <class A>
  void Store(Tensor& state) {
    const double* from = data();
    A* to = state.mutable_data<A>();
    for (int64_t i = 0; i < state.numel(); ++i) to[i] = static_cast<A>(from[i]);
  }
  double* data() { return sums_.mutable_data<double>(); }

 private:
  Tensor sums_;
};

template <class T>
void Step(const TssaInputs& in, CausalTssaState& state, Tensor& y) {
  using A = Accumulate<T>;
  const TssaDims& dims = in.dims;
  const int64_t heads = dims.heads, d = dims.head_dim, width = dims.width();
  const int64_t block = in.denom_bias.shape()[1];
  const A* temp = in.temp.data<A>();
  const A* bias = in.denom_bias.data<A>() + in.position;
  A* energy = state.energy.mutable_data<A>();
  A* weighted = state.weighted_energy.mutable_data<A>();
  A* mass = state.membership.mutable_data<A>();
  const T* w_rows = in.w.data<T>();
  T* y_rows = y.mutable_data<T>();
  ParallelFor(dims.batch, RowGrain(width), [&](int64_t first, int64_t last) {
    A* tile = Scratch<A>(heads * kChunkTokens + 3 * width);
    A* ones = tile + heads * kChunkTokens;
    A *w_buffer = ones + width, *y_buffer = w_buffer + width;
    std::fill_n(ones, width, A{1});
    for (int64_t b = first; b < last; ++b) {
      const int64_t row = b * width;
      const A* w = ReadRow(w_rows + row, width, w_buffer);
      A* out = RowToWrite(y_rows + row, /*add=*/false, y_buffer);
      std::fill_n(tile, heads * kChunkTokens, A{0});
      for (int64_t h = 0; h < heads; ++h) {
        const A share = AddEnergyAndShare(d, w + h * d, energy + row + h * d);
        tile[h * kChunkTokens] = temp[h] * (share + static_cast<A>(d) * bias[h * block]);
      }
      SoftmaxOverHeads(heads, tile);
      for (int64_t h = 0; h < heads; ++h) {
        const A membership = tile[h * kChunkTokens];
        A& sum = mass[b * heads + h];
        sum += membership;
        AddWeightedAndWrite(d, membership, sum + static_cast<A>(kTssaMassEpsilon), w + h * d,
                            ones + h * d, weighted + row + h * d, out + h * d);
      }
      FinishRow(out, width, /*add=*/false, y_rows + row);
    }
  });
}

}  // namespace

void CausalTssa(const TssaInputs& in, CausalTssaState* state, Tensor& y, TssaSaved& saved) {
  VisitFloat(in.w.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    const int64_t width = in.dims.width();
    Carry energy(in.dims, width), weighted(in.dims, width), mass(in.dims, in.dims.heads);
    if (state != nullptr) {
      energy.Load<A>(state->energy);
      weighted.Load<A>(state->weighted_energy);
      mass.Load<A>(state->membership);
    }
    CausalForward<T>(in, y, saved).Run(energy.data(), weighted.data(), mass.data());
    if (state != nullptr) {
      energy.Store<A>(state->energy);
      weighted.Store<A>(state->weighted_energy);
      mass.Store<A>(state->membership);
    }
  });
}

void CausalTssaStep(const TssaInputs& in, CausalTssaState& state, Tensor& y) {
  VisitFloat(in.w.dtype(), [&](auto zero) { Step<decltype(zero)>(in, state, y); });
}

}  // namespace tost::ops::cpu
