#include <limits>

#include "cuda/dispatch.h"
#include "cuda/embedding.cuh"
#include "cuda/install.h"
#include "cuda/runtime.h"
#include "ops/embedding.h"

namespace tost::cuda {
namespace {

void EmbeddingOf(const Tensor& ids, const Tensor& table, const Tensor& positions,
                 int64_t first_position, Tensor& y) {
  VisitDeviceFloat(table.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const int64_t columns = table.shape()[1];
    const T* places =
        positions.defined() ? positions.data<T>() + first_position * columns : nullptr;
    Embedding<T>({.columns = columns,
                  .vocabulary = table.shape()[0],
                  .length = ids.shape()[-1],
                  .ids = ids.data<int32_t>(),
                  .table = table.data<T>(),
                  .positions = places,
                  .y = y.mutable_data<T>()},
                 ids.numel(), ComputeStream());
  });
}

void EmbeddingTableBackward(const Tensor& ids, const Tensor& dy, bool add, Tensor& dtable) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max() / 2;
  TOST_CHECK(ids.numel() <= kMost && dtable.shape()[0] <= kMost)
      << "Embedding: " << ids.numel() << " tokens of " << dtable.shape()[0] << " ids";
  const int tokens = static_cast<int>(ids.numel());
  const SortKeys keys{ids.data<int32_t>(), static_cast<int>(dtable.shape()[0])};
  const Device device = dy.device();
  const auto numbers = [&](int64_t count) { return Tensor::Empty({count}, DType::kInt32, device); };
  Tensor counts = numbers(int64_t{kSortDigits} * SortChunks(tokens));
  Tensor a = numbers(tokens), b = numbers(tokens);
  const int32_t* order =
      SortTokens(keys, tokens, counts.mutable_data<int32_t>(), a.mutable_data<int32_t>(),
                 b.mutable_data<int32_t>(), ComputeStream());
  if (!add) {
    RuntimeOf(device).FillZero(dtable.mutable_raw(),
                               static_cast<size_t>(dtable.numel()) * SizeOf(dtable.dtype()));
  }
  VisitDeviceFloat(dy.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const int64_t columns = dtable.shape()[1];
    Tensor parts =
        Tensor::Empty({PartOffset(CeilDivide(tokens, kStretch), RunPart::kEntering, columns)},
                      kDTypeOf<Sum<T>>, device);
    VisitDeviceResult<T>(dtable.dtype(), [&](auto out_zero) {
      using Out = decltype(out_zero);
      AddTokensToTable<T, Out>({keys, order, tokens}, dy.data<T>(), columns,
                               parts.mutable_data<Sum<T>>(), dtable.mutable_data<Out>(),
                               ComputeStream());
    });
  });
}

void EmbeddingPositionsBackward(const Tensor& dy, int64_t first_position, bool add,
                                Tensor& dpositions) {
  VisitDeviceFloat(dy.dtype(), [&](auto zero) {
    using T = decltype(zero);
    VisitDeviceResult<T>(dpositions.dtype(), [&](auto out_zero) {
      using Out = decltype(out_zero);
      const int64_t length = dy.shape()[-2];
      PositionsBackward<T, Out>({.columns = dy.shape()[-1],
                                 .length = length,
                                 .batch = length == 0 ? 0 : dy.shape().Rows() / length,
                                 .first_position = first_position,
                                 .dy = dy.data<T>(),
                                 .add = add,
                                 .dpositions = dpositions.mutable_data<Out>()},
                                dpositions.shape()[0], ComputeStream());
    });
  });
}

}  // namespace

void InstallEmbeddingKernels() {
  ops::embedding_kernel.Install(DeviceType::kCuda, &EmbeddingOf);
  ops::embedding_table_backward_kernel.Install(DeviceType::kCuda, &EmbeddingTableBackward);
  ops::embedding_positions_backward_kernel.Install(DeviceType::kCuda, &EmbeddingPositionsBackward);
}

}  // namespace tost::cuda
