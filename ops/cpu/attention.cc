#include "ops/cpu/attention.h"

#include "autograd/base/parallel.h"
#include "ops/cpu/attention_tiles.h"

namespace tost::ops::cpu {
namespace {

// Queries of one task. They share the packing of each tile of keys and values.
constexpr int64_t kQueriesPerTask = 256;

// Takes scores [keys, kQueries] into the running softmax of a tile of queries: turns them into
// 2^(score − maximum) with the new maximum, and sets decay to what earlier sums must be multiplied
// with. maximum, sum and decay are [kQueries].
template <class A>
void AbsorbScores(int64_t keys, A* scores, A* maximum, A* sum, A* decay) {
  constexpr int kVectors = kTileVectors<A>;
  auto* tile = reinterpret_cast<Vector<A>*>(scores);
  auto* maxima = reinterpret_cast<Vector<A>*>(maximum);
  auto* sums = reinterpret_cast<Vector<A>*>(sum);
  auto* decays = reinterpret_cast<Vector<A>*>(decay);
  Vector<A> high[kVectors], total[kVectors];
  for (int v = 0; v < kVectors; ++v) high[v] = maxima[v];
  for (int64_t j = 0; j < keys; ++j) {
    for (int v = 0; v < kVectors; ++v) {
      const Vector<A> score = tile[j * kVectors + v];
      high[v] = score > high[v] ? score : high[v];
    }
  }
  for (int v = 0; v < kVectors; ++v) {
    decays[v] = Exp2(maxima[v] - high[v]);
    total[v] = sums[v] * decays[v];
  }
  for (int64_t j = 0; j < keys; ++j) {
    for (int v = 0; v < kVectors; ++v) {
      const Vector<A> weight = Exp2(tile[j * kVectors + v] - high[v]);
      tile[j * kVectors + v] = weight;
      total[v] += weight;
    }
  }
  for (int v = 0; v < kVectors; ++v) {
    maxima[v] = high[v];
    sums[v] = total[v];
  }
}

// One head's queries [first, first + count) against all keys they see.
template <class T>
class ForwardTask {
 public:
  using A = Accumulate<T>;

  ForwardTask(const AttentionOptions& options, const AttentionDims& dims, int64_t batch,
              int64_t head, const T* qkv, int64_t first)
      : options_(options),
        dims_(dims),
        batch_(batch),
        head_(head),
        first_(first),
        count_(std::min(kQueriesPerTask, dims.tokens - first)),
        tiles_(CeilDiv(count_, kQueries)),
        stride_(3 * dims.width()),
        qkv_(qkv + batch * dims.tokens * stride_ + head * dims.head_dim),
        scratch_(tiles_ * kQueries * (dims.head_dim + dims.padded + 2) +
                 2 * kKeys * (dims.padded + kQueries)),
        queries_(scratch_.Take(tiles_ * dims.head_dim * kQueries)),
        sums_(scratch_.Take(tiles_ * kQueries * dims.padded)),
        maximum_(scratch_.Take(tiles_ * kQueries)),
        denominator_(scratch_.Take(tiles_ * kQueries)),
        keys_(scratch_.Take(kKeys * dims.padded)),
        values_(scratch_.Take(kKeys * dims.padded)),
        scores_(scratch_.Take(kKeys * kQueries)),
        mask_(scratch_.Take(kKeys * kQueries)) {}

  void Run(T* y, A* log_sum) {
    const A scale = static_cast<A>(kLog2E / std::sqrt(static_cast<double>(dims_.head_dim)));
    for (int64_t tile = 0; tile < tiles_; ++tile) {
      PackTransposed(dims_, qkv_ + (first_ + tile * kQueries) * stride_, stride_, Rows(tile), scale,
                     queries_ + tile * dims_.head_dim * kQueries);
    }
    std::fill_n(sums_, tiles_ * kQueries * dims_.padded, A(0));
    std::fill_n(maximum_, tiles_ * kQueries, -std::numeric_limits<A>::infinity());
    std::fill_n(denominator_, tiles_ * kQueries, A(0));

    const int64_t last_key = options_.causal ? first_ + count_ : dims_.tokens;
    for (int64_t key = 0; key < last_key; key += kKeys) {
      const int64_t keys = std::min(kKeys, dims_.tokens - key);
      const T* rows = qkv_ + key * stride_ + dims_.width();
      Pack(dims_, rows, stride_, keys, A(1), keys_);
      Pack(dims_, rows + dims_.width(), stride_, keys, A(1), values_);
      for (int64_t tile = 0; tile < tiles_; ++tile) {
        const int64_t end = first_ + tile * kQueries + Rows(tile);
        const int64_t seen = options_.causal ? std::min(keys, end - key) : keys;
        if (seen > 0) Tile(tile, key, seen);
      }
    }
    Finish(y, log_sum);
  }

 private:
  int64_t Rows(int64_t tile) const { return std::min(kQueries, count_ - tile * kQueries); }

  void Tile(int64_t tile, int64_t key, int64_t keys) {
    const int64_t query = first_ + tile * kQueries;
    TileProduct<A>(keys, kQueries, dims_.head_dim, {keys_, dims_.padded, 1},
                   queries_ + tile * dims_.head_dim * kQueries, kQueries, false, scores_, kQueries);
    if (options_.causal) {
      ForHidden(query, key, keys, [&](int64_t j, int64_t lanes) {
        std::fill_n(scores_ + j * kQueries, lanes, -std::numeric_limits<A>::infinity());
      });
    }
    alignas(kVectorBytes) A decay[kQueries];
    AbsorbScores(keys, scores_, maximum_ + tile * kQueries, denominator_ + tile * kQueries, decay);
    if (options_.dropout > 0) {
      DropoutTile(options_, dims_, batch_, head_, query, key, keys, mask_);
      for (int64_t e = 0; e < keys * kQueries; ++e) scores_[e] *= mask_[e];
    }
    A* sums = sums_ + tile * kQueries * dims_.padded;
    for (int64_t i = 0; i < Rows(tile); ++i) {
#pragma omp simd
      for (int64_t c = 0; c < dims_.padded; ++c) sums[i * dims_.padded + c] *= decay[i];
    }
    TileProduct<A>(Rows(tile), dims_.padded, keys, {scores_, 1, kQueries}, values_, dims_.padded,
                   true, sums, dims_.padded);
  }

  void Finish(T* y, A* log_sum) const {
    T* out = y + (batch_ * dims_.tokens + first_) * dims_.width() + head_ * dims_.head_dim;
    A* logs = log_sum + (batch_ * dims_.heads + head_) * dims_.tokens + first_;
    for (int64_t i = 0; i < count_; ++i) {
      const A factor = A(1) / denominator_[i];
      for (int64_t c = 0; c < dims_.head_dim; ++c) {
        out[i * dims_.width() + c] = static_cast<T>(sums_[i * dims_.padded + c] * factor);
      }
      logs[i] = maximum_[i] + std::log2(denominator_[i]);
    }
  }

  const AttentionOptions& options_;
  const AttentionDims& dims_;
  const int64_t batch_, head_, first_, count_, tiles_, stride_;
  const T* qkv_;  // of token 0, channel 0 of the head's queries
  TileScratch<A> scratch_;
  A* queries_;  // [tiles][head_dim, kQueries], times log2(e)/√d
  A* sums_;     // [tiles · kQueries, padded]
  A* maximum_;
  A* denominator_;
  A* keys_;
  A* values_;
  A* scores_;
  A* mask_;
};

}  // namespace

void Attention(const AttentionOptions& options, const Tensor& qkv, Tensor& y, Tensor& log_sum) {
  VisitFloat(qkv.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const AttentionDims dims = DimsOf<T>(qkv.shape(), options.heads);
    const int64_t parts = CeilDiv(dims.tokens, kQueriesPerTask);
    const T* from = qkv.data<T>();
    T* to = y.mutable_data<T>();
    auto* logs = log_sum.mutable_data<Accumulate<T>>();
    ParallelFor(dims.batch * dims.heads * parts, 1, [&](int64_t begin, int64_t) {
      const int64_t head = begin / parts;
      ForwardTask<T>(options, dims, head / dims.heads, head % dims.heads, from,
                     begin % parts * kQueriesPerTask)
          .Run(to, logs);
    });
  });
}

}  // namespace tost::ops::cpu
