#include "ops/cpu/embedding.h"

#include <algorithm>

#include "autograd/base/parallel.h"
#include "ops/embedding.h"

namespace tost::ops::cpu {
namespace {

// Calls visit(T{}, Out{}) for the element types of a gradient that arrives and one that is written.
template <class Visit>
void VisitPair(DType dtype, DType out_dtype, Visit&& visit) {
  VisitFloat(dtype, [&](auto zero) {
    VisitFloat(out_dtype, [&](auto out_zero) { visit(zero, out_zero); });
  });
}

void CheckIds(const int32_t* ids, int64_t count, int64_t vocabulary) {
  for (int64_t i = 0; i < count; ++i) {
    TOST_CHECK(ids[i] >= 0 && ids[i] < vocabulary) << "Embedding: id " << ids[i] << " at token "
                                                   << i << " is outside [0, " << vocabulary << ")";
  }
}

// A rectangle of the table's gradient: rows [first_id, last_id), columns [begin, end).
struct Patch {
  int64_t first_id, last_id;
  int64_t begin, end;
};

template <class T, class Out>
void GatherPatch(const Patch& patch, int64_t tokens, int64_t columns, const int32_t* ids,
                 const T* dy, bool add, Out* dtable) {
  using A = Accumulate<Out>;
  if (!add) {
    for (int64_t id = patch.first_id; id < patch.last_id; ++id) {
      std::fill(dtable + id * columns + patch.begin, dtable + id * columns + patch.end, Out(0.0f));
    }
  }
  const int64_t count = patch.end - patch.begin;
  for (int64_t token = 0; token < tokens; ++token) {
    if (ids[token] < patch.first_id || ids[token] >= patch.last_id) continue;
    const T* __restrict from = dy + token * columns + patch.begin;
    Out* __restrict to = dtable + ids[token] * columns + patch.begin;
    for (int64_t c = 0; c < count; ++c) {
      to[c] = static_cast<Out>(static_cast<A>(to[c]) + static_cast<A>(from[c]));
    }
  }
}

}  // namespace

void Embedding(const Tensor& ids, const Tensor& table, const Tensor& positions,
               int64_t first_position, Tensor& y) {
  VisitFloat(table.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    const int64_t columns = table.shape()[1], length = ids.shape()[-1];
    const int32_t* id = ids.data<int32_t>();
    const T* rows = table.data<T>();
    const T* places = positions.defined() ? positions.data<T>() : nullptr;
    T* out = y.mutable_data<T>();
    CheckIds(id, ids.numel(), table.shape()[0]);
    ParallelFor(ids.numel(), RowGrain(columns), [&](int64_t begin, int64_t end) {
      for (int64_t token = begin; token < end; ++token) {
        const T* __restrict word = rows + id[token] * columns;
        T* __restrict to = out + token * columns;
        if (places == nullptr) {
          std::copy(word, word + columns, to);
          continue;
        }
        const T* __restrict place = places + (first_position + token % length) * columns;
        for (int64_t c = 0; c < columns; ++c) {
          to[c] = static_cast<T>(static_cast<A>(word[c]) + static_cast<A>(place[c]));
        }
      }
    });
  });
}

void EmbeddingTableBackward(const Tensor& ids, const Tensor& dy, bool add, Tensor& dtable) {
  // A task owns a patch of the table and walks all tokens: the order of every sum is theirs.
  constexpr int64_t kPatchColumns = 64, kPatchRows = 4096;
  VisitPair(dy.dtype(), dtable.dtype(), [&](auto zero, auto out_zero) {
    using T = decltype(zero);
    using Out = decltype(out_zero);
    const int64_t vocabulary = dtable.shape()[0], columns = dtable.shape()[1];
    const int64_t row_patches = (vocabulary + kPatchRows - 1) / kPatchRows;
    const int64_t column_patches = (columns + kPatchColumns - 1) / kPatchColumns;
    const int32_t* id = ids.data<int32_t>();
    const T* gradient = dy.data<T>();
    Out* out = dtable.mutable_data<Out>();
    ParallelFor(row_patches * column_patches, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t row = task / column_patches * kPatchRows;
        const int64_t column = task % column_patches * kPatchColumns;
        const Patch patch{row, std::min(vocabulary, row + kPatchRows), column,
                          std::min(columns, column + kPatchColumns)};
        GatherPatch(patch, ids.numel(), columns, id, gradient, add, out);
      }
    });
  });
}

void EmbeddingPositionsBackward(const Tensor& dy, int64_t first_position, bool add,
                                Tensor& dpositions) {
  VisitPair(dy.dtype(), dpositions.dtype(), [&](auto zero, auto out_zero) {
    using T = decltype(zero);
    using Out = decltype(out_zero);
    using A = Accumulate<Out>;
    const int64_t columns = dy.shape()[-1], length = dy.shape()[-2];
    const int64_t batch = length == 0 ? 0 : dy.shape().Rows() / length;
    const T* gradient = dy.data<T>();
    Out* out = dpositions.mutable_data<Out>();
    ParallelFor(dpositions.shape()[0], RowGrain(columns * (batch + 1)),
                [&](int64_t begin, int64_t end) {
                  for (int64_t row = begin; row < end; ++row) {
                    Out* __restrict to = out + row * columns;
                    if (!add) std::fill(to, to + columns, Out(0.0f));
                    const int64_t token = row - first_position;
                    if (token < 0 || token >= length) continue;
                    for (int64_t b = 0; b < batch; ++b) {
                      const T* __restrict from = gradient + (b * length + token) * columns;
                      for (int64_t c = 0; c < columns; ++c) {
                        to[c] = static_cast<Out>(static_cast<A>(to[c]) + static_cast<A>(from[c]));
                      }
                    }
                  }
                });
  });
}

}  // namespace tost::ops::cpu
