#include "ops/embedding.h"

#include "absl/strings/str_cat.h"
#include "autograd/tape.h"
#include "ops/cpu/embedding.h"

namespace tost::ops {

constinit Kernel<EmbeddingFn> embedding_kernel{"embedding", &cpu::Embedding};
constinit Kernel<EmbeddingTableBackwardFn> embedding_table_backward_kernel{
    "embedding_table_backward", &cpu::EmbeddingTableBackward};
constinit Kernel<EmbeddingPositionsBackwardFn> embedding_positions_backward_kernel{
    "embedding_positions_backward", &cpu::EmbeddingPositionsBackward};

absl::StatusOr<Shape> EmbeddingShape(const Shape& ids, const Shape& table,
                                     const std::optional<Shape>& positions,
                                     int64_t first_position) {
  if (ids.rank() < 1 || ids.rank() >= Shape::kMaxRank || table.rank() != 2) {
    return absl::InvalidArgumentError(absl::StrCat("Embedding: ids ", ids.ToString(),
                                                   " need an axis of tokens and table ",
                                                   table.ToString(), " two axes"));
  }
  const Shape y = ids.Appended(table[1]);
  if (!positions.has_value()) return y;
  if (positions->rank() != 2 || (*positions)[1] != table[1]) {
    return absl::InvalidArgumentError(absl::StrCat("Embedding: positions ", positions->ToString(),
                                                   " do not fit the table ", table.ToString()));
  }
  if (first_position < 0 || first_position + ids[-1] > (*positions)[0]) {
    return absl::InvalidArgumentError(
        absl::StrCat("Embedding: positions ", first_position, " to ", first_position + ids[-1],
                     " are asked for but there are ", (*positions)[0], " (ids ", ids.ToString(),
                     ", positions ", positions->ToString(), ")"));
  }
  return y;
}

Tensor Embedding(const Tensor& ids, const Tensor& table, const Tensor& positions,
                 int64_t first_position) {
  TOST_CHECK(!positions.defined() || positions.dtype() == table.dtype())
      << "Embedding: positions are " << positions.dtype() << " but table is " << table.dtype();
  const auto places = positions.defined() ? std::optional<Shape>(positions.shape()) : std::nullopt;
  Tensor y = Tensor::Empty(
      TOST_CHECK_VALUE(EmbeddingShape(ids.shape(), table.shape(), places, first_position)),
      table.dtype(), table.device());
  embedding_kernel.On(table.device().type)(ids, table, positions, first_position, y);

  Tape* tape = Tape::Current();
  if (tape == nullptr) return y;
  return tape->Record("embedding", {table.grad(), positions.grad()}, y,
                      [ids = Saved(ids), table = SavedShape(table),
                       positions = SavedShape(positions), first_position](const Tensor& dy) {
                        const DeviceType device = dy.device().type;
                        table.Gradient([&](Tensor& dtable, bool add) {
                          embedding_table_backward_kernel.On(device)(ids, dy, add, dtable);
                        });
                        positions.Gradient([&](Tensor& dpositions, bool add) {
                          embedding_positions_backward_kernel.On(device)(dy, first_position, add,
                                                                         dpositions);
                        });
                      });
}

}  // namespace tost::ops
