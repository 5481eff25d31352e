// Token and position embeddings.
#ifndef TOST_OPS_EMBEDDING_H_
#define TOST_OPS_EMBEDDING_H_

#include <optional>

#include "absl/status/statusor.h"
#include "autograd/tensor.h"
#include "ops/kernel.h"

namespace tost::ops {

// y[b, t] = table[ids[b, t]] + positions[first_position + t].
//   ids: int32 [..., T]   table: [V, C]   positions: [P, C] or absent   →   y: [..., T, C]
// table and positions have one floating dtype, which is y's. Every id lies in [0, V): CHECKed.
// Gradients: dtable[v] += Σ over the tokens with id v of dy, in the order of the tokens;
// dpositions[p] += Σ_b dy[b, p − first_position]. Saves ids.
Tensor Embedding(const Tensor& ids, const Tensor& table, const Tensor& positions = {},
                 int64_t first_position = 0);

// The extents of y, or why there are none.
absl::StatusOr<Shape> EmbeddingShape(const Shape& ids, const Shape& table,
                                     const std::optional<Shape>& positions = std::nullopt,
                                     int64_t first_position = 0);

using EmbeddingFn = void(const Tensor& ids, const Tensor& table, const Tensor& positions,
                         int64_t first_position, Tensor& y);
extern Kernel<EmbeddingFn> embedding_kernel;

// Writes the whole of dtable: rows of absent ids become 0 unless `add`.
using EmbeddingTableBackwardFn = void(const Tensor& ids, const Tensor& dy, bool add,
                                      Tensor& dtable);
extern Kernel<EmbeddingTableBackwardFn> embedding_table_backward_kernel;

// Writes the whole of dpositions: rows of absent positions become 0 unless `add`. dy: [..., T, C].
using EmbeddingPositionsBackwardFn = void(const Tensor& dy, int64_t first_position, bool add,
                                          Tensor& dpositions);
extern Kernel<EmbeddingPositionsBackwardFn> embedding_positions_backward_kernel;

}  // namespace tost::ops

#endif  // TOST_OPS_EMBEDDING_H_
