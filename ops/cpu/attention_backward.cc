#include "autograd/base/parallel.h"
#include "ops/cpu/attention.h"
#include "ops/cpu/attention_tiles.h"

namespace tost::ops::cpu {
namespace {

// A head's keys are cut into segments when there are fewer heads than this, so that a small batch
// still occupies several cores. Each segment then leaves a part of dq, to be added up in order.
constexpr int64_t kWantedTasks = 16;

template <class T>
struct BackwardOperands {
  const AttentionOptions& options;
  AttentionDims dims;
  int64_t segment;  // keys of one task, a multiple of kKeys
  const T* qkv;
  const T* y;
  const Accumulate<T>* log_sum;
  const T* dy;
  T* dqkv;
  bool add;
  Accumulate<T>* parts;  // [segments, B · H, T, d], or null when there is one segment

  int64_t segments() const { return CeilDiv(dims.tokens, segment); }
};

// to[rows, width] (+)= scale · from[rows, padded]
template <class T, class A>
void Unpack(const A* from, int64_t padded, int64_t rows, int64_t width, A scale, bool add, T* to,
            int64_t stride) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t c = 0; c < width; ++c) {
      const A value = scale * from[i * padded + c];
      T& out = to[i * stride + c];
      out = static_cast<T>(add ? static_cast<A>(out) + value : value);
    }
  }
}

// The gradients of one head's keys [first, first + count) and their part of dq.
template <class T>
class BackwardTask {
 public:
  using A = Accumulate<T>;

  BackwardTask(const BackwardOperands<T>& on, int64_t head_index, int64_t segment)
      : on_(on),
        dims_(on.dims),
        head_index_(head_index),
        segment_(segment),
        batch_(head_index / dims_.heads),
        head_(head_index % dims_.heads),
        first_(segment * on.segment),
        count_(std::min(on.segment, dims_.tokens - first_)),
        stride_(3 * dims_.width()),
        scale_(A(1) / std::sqrt(static_cast<A>(dims_.head_dim))),
        scratch_(4 * count_ * dims_.padded + kQueries * (3 * dims_.padded + 2 * dims_.head_dim) +
                 3 * kKeys * kQueries),
        keys_(scratch_.Take(count_ * dims_.padded)),
        values_(scratch_.Take(count_ * dims_.padded)),
        dkeys_(scratch_.Take(count_ * dims_.padded)),
        dvalues_(scratch_.Take(count_ * dims_.padded)),
        queries_(scratch_.Take(kQueries * dims_.padded)),
        dy_(scratch_.Take(kQueries * dims_.padded)),
        dqueries_(scratch_.Take(kQueries * dims_.padded)),
        queries_t_(scratch_.Take(kQueries * dims_.head_dim)),
        dy_t_(scratch_.Take(kQueries * dims_.head_dim)),
        weights_(scratch_.Take(kKeys * kQueries)),
        dscores_(scratch_.Take(kKeys * kQueries)),
        mask_(scratch_.Take(kKeys * kQueries)) {}

  void Run() {
    const int64_t offset = (batch_ * dims_.tokens + first_) * stride_ + head_ * dims_.head_dim;
    const T* rows = on_.qkv + offset;
    Pack(dims_, rows + dims_.width(), stride_, count_, A(1), keys_);
    Pack(dims_, rows + 2 * dims_.width(), stride_, count_, A(1), values_);
    std::fill_n(dkeys_, 2 * count_ * dims_.padded, A(0));

    const int64_t begin = on_.options.causal ? first_ / kQueries * kQueries : 0;
    for (int64_t query = begin; query < dims_.tokens; query += kQueries) Queries(query);

    T* out = on_.dqkv + offset;
    Unpack(dkeys_, dims_.padded, count_, dims_.head_dim, A(1), on_.add, out + dims_.width(),
           stride_);
    Unpack(dvalues_, dims_.padded, count_, dims_.head_dim, A(1), on_.add, out + 2 * dims_.width(),
           stride_);
  }

 private:
  // One tile of queries against the whole segment.
  void Queries(int64_t query) {
    const int64_t rows = std::min(kQueries, dims_.tokens - query);
    LoadQueries(query, rows);
    std::fill_n(dqueries_, kQueries * dims_.padded, A(0));
    for (int64_t key = 0; key < count_; key += kKeys) {
      const int64_t keys = std::min(kKeys, count_ - key);
      const int64_t seen = on_.options.causal ? std::min(keys, query + rows - first_ - key) : keys;
      if (seen > 0) Tile(query, rows, key, seen);
    }
    if (on_.parts != nullptr) {
      A* part = on_.parts +
                ((segment_ * dims_.batch * dims_.heads + head_index_) * dims_.tokens + query) *
                    dims_.head_dim;
      Unpack(dqueries_, dims_.padded, rows, dims_.head_dim, scale_, false, part, dims_.head_dim);
    } else {
      T* out = on_.dqkv + (batch_ * dims_.tokens + query) * stride_ + head_ * dims_.head_dim;
      Unpack(dqueries_, dims_.padded, rows, dims_.head_dim, scale_, on_.add, out, stride_);
    }
  }

  void LoadQueries(int64_t query, int64_t rows) {
    const int64_t token = batch_ * dims_.tokens + query, channel = head_ * dims_.head_dim;
    const T* q = on_.qkv + token * stride_ + channel;
    Pack(dims_, q, stride_, rows, scale_, queries_);
    PackTransposed(dims_, q, stride_, rows, scale_ * static_cast<A>(kLog2E), queries_t_);
    const T* dy = on_.dy + token * dims_.width() + channel;
    Pack(dims_, dy, dims_.width(), rows, A(1), dy_);
    PackTransposed(dims_, dy, dims_.width(), rows, A(1), dy_t_);

    const T* y = on_.y + token * dims_.width() + channel;
    const A* logs = on_.log_sum + head_index_ * dims_.tokens + query;
    for (int64_t i = 0; i < kQueries; ++i) {
      A dot = 0;
#pragma omp simd reduction(+ : dot)
      for (int64_t c = 0; c < (i < rows ? dims_.head_dim : 0); ++c) {
        dot += dy_[i * dims_.padded + c] * static_cast<A>(y[i * dims_.width() + c]);
      }
      dot_[i] = dot;
      log_sum_[i] = i < rows ? logs[i] : A(0);
    }
  }

  // `key` counts from the beginning of the segment.
  void Tile(int64_t query, int64_t rows, int64_t key, int64_t keys) {
    const A* k = keys_ + key * dims_.padded;
    TileProduct<A>(keys, kQueries, dims_.head_dim, {k, dims_.padded, 1}, queries_t_, kQueries,
                   false, weights_, kQueries);
    TileProduct<A>(keys, kQueries, dims_.head_dim, {values_ + key * dims_.padded, dims_.padded, 1},
                   dy_t_, kQueries, false, dscores_, kQueries);
    Differentiate(query, key, keys);
    TileProduct<A>(keys, dims_.padded, rows, {weights_, kQueries, 1}, dy_, dims_.padded, true,
                   dvalues_ + key * dims_.padded, dims_.padded);
    TileProduct<A>(keys, dims_.padded, rows, {dscores_, kQueries, 1}, queries_, dims_.padded, true,
                   dkeys_ + key * dims_.padded, dims_.padded);
    TileProduct<A>(rows, dims_.padded, keys, {dscores_, 1, kQueries}, k, dims_.padded, true,
                   dqueries_, dims_.padded);
  }

  // From scores and dweights to weights (dropout applied) and dscores, both [keys, kQueries].
  void Differentiate(int64_t query, int64_t key, int64_t keys) {
    const int64_t count = keys * kQueries;
    const bool dropout = on_.options.dropout > 0;
    if (dropout) {
      DropoutTile(on_.options, dims_, batch_, head_, query, first_ + key, keys, mask_);
      for (int64_t e = 0; e < count; ++e) dscores_[e] *= mask_[e];
    }
    constexpr int kVectors = kTileVectors<A>;
    auto* weights = reinterpret_cast<Vector<A>*>(weights_);
    auto* dscores = reinterpret_cast<Vector<A>*>(dscores_);
    const auto* logs = reinterpret_cast<const Vector<A>*>(log_sum_);
    const auto* dots = reinterpret_cast<const Vector<A>*>(dot_);
    for (int64_t j = 0; j < keys; ++j) {
      for (int v = 0; v < kVectors; ++v) {
        const int64_t at = j * kVectors + v;
        const Vector<A> weight = Exp2(weights[at] - logs[v]);
        weights[at] = weight;
        dscores[at] = weight * (dscores[at] - dots[v]);
      }
    }
    if (dropout) {
      for (int64_t e = 0; e < count; ++e) weights_[e] *= mask_[e];
    }
    if (on_.options.causal) {
      ForHidden(query, first_ + key, keys, [&](int64_t j, int64_t lanes) {
        std::fill_n(weights_ + j * kQueries, lanes, A(0));
        std::fill_n(dscores_ + j * kQueries, lanes, A(0));
      });
    }
  }

  const BackwardOperands<T>& on_;
  const AttentionDims& dims_;
  const int64_t head_index_, segment_, batch_, head_, first_, count_, stride_;
  const A scale_;
  TileScratch<A> scratch_;
  A* keys_;  // [count, padded], like the next three
  A* values_;
  A* dkeys_;
  A* dvalues_;
  A* queries_;  // [kQueries, padded], times 1/√d
  A* dy_;       // [kQueries, padded]
  A* dqueries_;
  A* queries_t_;  // [head_dim, kQueries], times log2(e)/√d
  A* dy_t_;
  A* weights_;  // [kKeys, kQueries], like the next two
  A* dscores_;
  A* mask_;
  alignas(kVectorBytes) A dot_[kQueries];  // D
  alignas(kVectorBytes) A log_sum_[kQueries];
};

// dq of every token: its parts, in the order of the segments that it saw.
template <class T>
void AddParts(const BackwardOperands<T>& on) {
  using A = Accumulate<T>;
  const AttentionDims& dims = on.dims;
  const int64_t rows = dims.batch * dims.heads * dims.tokens;
  ParallelFor(rows, RowGrain(dims.head_dim), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t token = row % dims.tokens, head = row / dims.tokens;
      const int64_t seen = on.options.causal ? token / on.segment + 1 : on.segments();
      T* out = on.dqkv + ((head / dims.heads) * dims.tokens + token) * 3 * dims.width() +
               head % dims.heads * dims.head_dim;
      for (int64_t c = 0; c < dims.head_dim; ++c) {
        A sum = on.add ? static_cast<A>(out[c]) : A(0);
        for (int64_t s = 0; s < seen; ++s) sum += on.parts[(s * rows + row) * dims.head_dim + c];
        out[c] = static_cast<T>(sum);
      }
    }
  });
}

}  // namespace

void AttentionBackward(const AttentionOptions& options, const Tensor& qkv, const Tensor& y,
                       const Tensor& log_sum, const Tensor& dy, Tensor& dqkv, bool add) {
  VisitFloat(qkv.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    const AttentionDims dims = DimsOf<T>(qkv.shape(), options.heads);
    const int64_t heads = dims.batch * dims.heads;
    const int64_t cuts = CeilDiv(kWantedTasks, std::max<int64_t>(heads, 1));
    const int64_t segment = std::max(kKeys, CeilDiv(CeilDiv(dims.tokens, cuts), kKeys) * kKeys);
    BackwardOperands<T> on{options,      dims,
                           segment,      qkv.data<T>(),
                           y.data<T>(),  log_sum.data<A>(),
                           dy.data<T>(), dqkv.mutable_data<T>(),
                           add,          nullptr};
    Tensor parts;
    if (on.segments() > 1) {
      parts = Tensor::Empty({on.segments(), heads, dims.tokens, dims.head_dim}, kDTypeOf<A>);
      on.parts = parts.mutable_data<A>();
    }
    ParallelFor(heads * on.segments(), 1, [&](int64_t begin, int64_t) {
      BackwardTask<T>(on, begin / on.segments(), begin % on.segments()).Run();
    });
    if (on.parts != nullptr) AddParts(on);
  });
}

}  // namespace tost::ops::cpu
