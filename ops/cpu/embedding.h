// CPU kernels of ops/embedding.h, where their meaning is written.
#ifndef TOST_OPS_CPU_EMBEDDING_H_
#define TOST_OPS_CPU_EMBEDDING_H_

#include "autograd/tensor.h"

namespace tost::ops::cpu {

void Embedding(const Tensor& ids, const Tensor& table, const Tensor& positions,
               int64_t first_position, Tensor& y);
void EmbeddingTableBackward(const Tensor& ids, const Tensor& dy, bool add, Tensor& dtable);
void EmbeddingPositionsBackward(const Tensor& dy, int64_t first_position, bool add,
                                Tensor& dpositions);

}  // namespace tost::ops::cpu

#endif  // TOST_OPS_CPU_EMBEDDING_H_
